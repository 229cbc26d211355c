"""The same stumps through other generators of C, and through engines on this machine."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from totalqboost import Ensemble, export
from totalqboost.learners import Stump

__all__ = ["GENERATORS", "Program", "as_lightgbm", "engine_nanoseconds"]

MACRO = "#define MODEL_N_FEATURES {}\n"


@dataclass(frozen=True)
class Program:
    """C that ``export.targets.measure`` takes: a header, further files, and the type of x."""

    header: str
    kind: str
    more: list[str] = field(default_factory=list)


def as_lightgbm(model: Ensemble) -> Any:
    """Return a LightGBM classifier whose trees are the stumps of the model."""
    from lightgbm import Booster, LGBMClassifier

    rng = np.random.default_rng(0)
    n, n_features = model.n_learners, len(model.features)
    X = rng.normal(size=(400, n_features))
    y = X.sum(axis=1) > rng.normal(size=400)
    frame = LGBMClassifier(n_estimators=n, num_leaves=2, verbose=-1).fit(X, y)
    head, *trees = re.split(r"(?=^Tree=\d+$)", frame.booster_.model_to_string(), flags=re.M)
    assert len(trees) == n
    texts = []
    for k, (tree, learner, weight) in enumerate(
        zip(trees, model.learners, model.weights, strict=True)
    ):
        assert isinstance(learner, Stump)
        value = learner.polarity * weight
        low, high = (-value + model.intercept * (k == 0), value + model.intercept * (k == 0))
        for key, own in (
            ("split_feature", learner.feature),
            ("threshold", repr(learner.threshold)),
            ("leaf_value", f"{low!r} {high!r}"),
        ):
            tree = re.sub(rf"^{key}=.*$", f"{key}={own}", tree, flags=re.M)
        texts.append(tree)
    text = re.sub(r"^tree_sizes=.*\n", "", head, flags=re.M) + "".join(texts)
    frame._Booster = Booster(model_str=text)
    return frame


def through_m2cgen(model: Ensemble, X: np.ndarray, y: np.ndarray) -> Program:
    import m2cgen

    code = m2cgen.export_to_c(as_lightgbm(model))
    call = (
        "void score(double *input, double *output);\n"
        "static inline int model_predict(const double *x)\n"
        "{ double p[2]; score((double *)x, p); return p[1] > 0.5; }\n"
    )
    return Program(MACRO.format(len(model.features)) + call, "double", [code])


def through_tl2cgen(model: Ensemble, X: np.ndarray, y: np.ndarray) -> Program:
    import tl2cgen
    import treelite

    forest = treelite.frontend.from_lightgbm(as_lightgbm(model).booster_)
    with tempfile.TemporaryDirectory() as folder:
        tl2cgen.generate_c_code(forest, dirpath=folder, params={})
        head = (Path(folder) / "header.h").read_text(encoding="utf-8")
        code = (Path(folder) / "main.c").read_text(encoding="utf-8")
    call = (
        "union Entry;\nvoid predict(union Entry *data, int pred_margin, double *result);\n"
        "static inline int model_predict(const double *x)\n"
        "{ double p = 0.0; predict((union Entry *)x, 0, &p); return p > 0.5; }\n"
    )
    whole = code.replace('#include "header.h"', head)
    return Program(MACRO.format(len(model.features)) + call, "double", [whole])


def through_emlearn(model: Ensemble, X: np.ndarray, y: np.ndarray) -> Program:
    """A forest of as many stumps: emlearn has no boosting."""
    import emlearn
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(model.n_learners, max_depth=1, random_state=0).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "forest.h"
        emlearn.convert(forest, method="inline", dtype="float").save(name="forest", file=str(path))
        code = path.read_text(encoding="utf-8")
    n = len(model.features)
    call = (
        "static inline int model_predict(const float *x)\n"
        f"{{ return (int)forest_predict(x, {n}); }}\n"
    )
    return Program(MACRO.format(n) + code + call, "float")


GENERATORS: dict[str, Callable[[Ensemble, np.ndarray, np.ndarray], Program]] = {
    "m2cgen": through_m2cgen,
    "tl2cgen": through_tl2cgen,
    "emlearn, inline (a forest)": through_emlearn,
}


# -- engines on this machine -----------------------------------------------------------------

LIGHTGBM = """
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv)
{
    static double rows[%(n_rows)d * %(n)d];
    void *library = dlopen(argv[1], RTLD_NOW), *booster, *fast;
    int (*load)(const char *, int *, void **) = dlsym(library, "LGBM_BoosterCreateFromModelfile");
    int (*init)(void *, int, int, int, int, int32_t, const char *, void **) =
        dlsym(library, "LGBM_BoosterPredictForMatSingleRowFastInit");
    int (*predict)(void *, const void *, int64_t *, double *) =
        dlsym(library, "LGBM_BoosterPredictForMatSingleRowFast");
    int n_iterations;
    int64_t length;
    double out = 0.0, total = 0.0;
    struct timespec begin, end;
    if (argc < 3 || load(argv[2], &n_iterations, &booster) != 0) return 1;
    if (init(booster, 0, 0, -1, 1, %(n)d, "num_threads=1", &fast) != 0) return 2;
    if (fread(rows, sizeof rows, 1, stdin) != 1) return 3;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (int k = 0; k < %(repeats)d; k++) {
        predict(fast, rows + (k %% %(n_rows)d) * %(n)d, &length, &out);
        total += out;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    double ns = (end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec);
    printf("%%f %%f\\n", ns / %(repeats)d, total);
    return 0;
}
"""


def engine_nanoseconds(model: Ensemble, X: np.ndarray, repeats: int) -> dict[str, float | str]:
    """Return how long engines take for one row, in nanoseconds."""
    tasks: dict[str, Callable[[Ensemble, np.ndarray, int], float]] = {
        "LightGBM, fast single row": _lightgbm,
        "ONNX Runtime": _onnxruntime,
    }
    found: dict[str, float | str] = {}
    for name, task in tasks.items():
        try:
            found[name] = task(model, X, repeats)
        except ImportError as error:
            found[name] = f"{error.name} is not installed"
    return found


def _lightgbm(model: Ensemble, X: np.ndarray, repeats: int) -> float:
    import lightgbm

    own = {"n_rows": len(X), "n": X.shape[1], "repeats": repeats}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        as_lightgbm(model).booster_.save_model(str(folder / "model.txt"))
        (folder / "main.c").write_text(LIGHTGBM % own, encoding="utf-8")
        subprocess.run(["gcc", "-O2", "main.c", "-ldl", "-o", "main"], cwd=folder, check=True)
        done = subprocess.run(
            ["./main", lightgbm.basic._LIB._name, "model.txt"],
            cwd=folder,
            input=np.ascontiguousarray(X, dtype=np.float64).tobytes(),
            capture_output=True,
            check=True,
        )
    return float(done.stdout.split()[0])


def _onnxruntime(model: Ensemble, X: np.ndarray, repeats: int) -> float:
    import time

    import onnxruntime

    content = export.to_onnx(model, columns=False).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    rows = [{name: X[k : k + 1].astype(np.float32)} for k in range(len(X))]
    count = max(repeats // 1000, 100)
    session.run(["label"], rows[0])
    began = time.process_time()
    for k in range(count):
        session.run(["label"], rows[k % len(rows)])
    return (time.process_time() - began) / count * 1e9
