"""Shorter forms of C say the same: bits as they are, sums in a byte, words, scales around 0."""

from __future__ import annotations

import re

import numpy as np
import pytest
from c_programs import SANITIZED, compiled, labels
from export_inputs import numbers_of, tricky_rows

from totalqboost import Ensemble, Stump
from totalqboost.export.c import to_c
from totalqboost.learners import Missing


def stumps(seed, n, n_features, thresholds=None, weights=None, intercept=0.1, **more):
    rng = np.random.default_rng(seed)
    own = rng.normal(size=n) if thresholds is None else thresholds
    features = np.append(rng.integers(n_features, size=n - 1), n_features - 1)
    learners = [
        Stump(int(j), float(t), int(rng.choice([-1, 1])))
        for j, t in zip(features, own, strict=True)
    ]
    weights = rng.random(n) + 0.05 if weights is None else weights
    names = [f"x{j}" for j in range(n_features)]
    return Ensemble(learners, weights, intercept, ("no", "yes"), names, "logistic", **more)


def known(model, n=4000):
    """Rows at and around thresholds, with infinities and zeros of both signs, without NaN."""
    X = tricky_rows(model, n, np.float32)
    X[np.isnan(X)] = -0.0
    return X


def agree(folder, model, header, X, **options):
    program = compiled(folder, header, X.shape[1], flags=SANITIZED, **options)
    wrong = np.flatnonzero(labels(program, X) != numbers_of(model, X))
    assert len(wrong) == 0, f"{X[wrong[0]]}\n{header}"


@pytest.mark.parametrize("weights", ["auto", "int32"])
@pytest.mark.parametrize("least", [0.0, 0.25, -0.25])
def test_bits_are_compared_as_they_are_if_no_threshold_is_negative(tmp_path, weights, least):
    thresholds = np.append(least, np.abs(np.random.default_rng(1).normal(size=11)) + 0.3)
    model = stumps(0, 12, 4, thresholds)
    header = to_c(model, weights=weights)
    assert ("_key(" in header) == (least < 0)
    agree(tmp_path, model, header, known(model))


@pytest.mark.parametrize("n_features", [2, 127, 128, 129, 256, 257, 600])
@pytest.mark.parametrize("missing", [False, True])
def test_features_share_a_word_with_weights(tmp_path, n_features, missing):
    model = stumps(n_features, 12, n_features)
    header = to_c(model, weights="int32", missing=missing)
    assert ("_TOP(" in header) == (n_features <= 256)
    X = tricky_rows(model, 1000, np.float32) if missing else known(model, 1000)
    agree(tmp_path, model, header, X)


@pytest.mark.parametrize("input", ["float32", "int16", "uint8"])
@pytest.mark.parametrize("intercept", [-60, 0, 60, -2000, 2000])
def test_sums_begin_in_a_byte_while_they_fit(tmp_path, input, intercept):
    rng = np.random.default_rng(5)
    weights = np.array([10, 20, 5, 7, 9, 40, 90, 3], dtype=float)
    thresholds = rng.integers(1, 200, 8).astype(float)
    model = stumps(7, 8, 5, thresholds, weights, float(intercept), scale=1.0)
    width = "int32" if input == "uint8" else "auto"
    header = to_c(model, input=input, optimize="speed", weights=width)
    assert "fast8_t a = " not in header or abs(intercept) < 1000
    X = rng.integers(0, 256, (3000, 5)).astype(np.float32)
    cuts = rng.choice(thresholds, 3000) + rng.integers(0, 2, 3000)
    X[np.arange(3000), rng.integers(5, size=3000)] = cuts
    kind = {"float32": "float", "int16": "int16_t", "uint8": "uint8_t"}[input]
    Q = X.astype({"float32": "f4", "int16": "i2", "uint8": "u1"}[input])
    program = compiled(tmp_path, header, 5, kind, flags=SANITIZED)
    assert (labels(program, Q) == numbers_of(model, X)).all(), header


def test_a_byte_of_either_sign_is_used():
    found = set()
    for intercept in (-90.0, -60.0, 60.0, 90.0):
        model = stumps(7, 8, 5, None, np.full(8, 10.0), intercept, scale=1.0)
        header = to_c(model, optimize="speed")
        found |= set(re.findall(r" (u?int_fast8_t) a = ", header))
    assert found == {"uint_fast8_t", "int_fast8_t"}


def scaled(folder, model, rows, X):
    """What the header of int16 says to rows of floats, and the header."""
    header = to_c(model, input="int16", optimize="speed", rows=rows)
    n = X.shape[1]
    inside = f"static int16_t q[{n}]; model_quantize(v, q); return model_predict(q);"
    before = f"static int both(const float *v) {{ {inside} }}"
    program = compiled(folder, header, n, call="both(x)", before=before)
    return labels(program, X), header


def test_scales_put_a_cut_of_each_feature_at_0(tmp_path):
    rng = np.random.default_rng(0)
    model = stumps(3, 12, 6, rng.uniform(-1, 1, 12))
    rows = rng.normal(size=(2000, 6)).astype(np.float32)
    X = (8 * rng.normal(size=(4000, 6))).astype(np.float32)  # beyond the rows too
    found, header = scaled(tmp_path, model, rows, X)
    assert (found != numbers_of(model, X)).mean() < 0.001
    body = header[header.index("model_sum(") : header.index("return s;")]
    for block in body.split("v = x[")[1:]:
        assert re.search(r"v > (-1|0|1)\)", block), block
    given = to_c(model, input="int16", ranges={j: (-3.0, 3.0) for j in range(6)})
    assert "low -3, factor 10922.5" in given  # a scale of the user stays as it is


def test_cuts_that_are_far_apart_keep_a_scale_that_holds_both(tmp_path):
    learners = [Stump(0, -0.99), Stump(0, 0.99), Stump(0, 0.0), Stump(1, 0.999)]
    model = Ensemble(learners, (1.0, 0.8, 0.3, 0.5), 0.1, features=("a", "b"))
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.uniform(-1, 1, (500, 2)), [[-1, -1], [1, 1]]]).astype(np.float32)
    X = rng.uniform(-1.2, 1.2, (4000, 2)).astype(np.float32)
    found, _ = scaled(tmp_path, model, rows, X)
    assert (found != numbers_of(model, X)).mean() < 0.001
    gaps = Ensemble([*learners, Missing(1)], (1.0, 0.8, 0.3, 0.5, 0.4), features=("a", "b"))
    X[::7, 1] = np.nan
    found, _ = scaled(tmp_path, gaps, rows, X)
    assert (found != numbers_of(gaps, X)).mean() < 0.001
    alone = Ensemble([Stump(0, 0.0), Missing(1)], (0.3, 0.5), features=("a", "b"))
    found, _ = scaled(tmp_path, alone, rows, X)
    assert (found != numbers_of(alone, X)).mean() < 0.001
    X[::7, 1] = 0.0
    two = Ensemble(learners[:2], (1.0, 0.8), 0.1, features=("a", "b"))
    found, _ = scaled(tmp_path, two, rows, X)
    assert (found != numbers_of(two, X)).mean() < 0.001
