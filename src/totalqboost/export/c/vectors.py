"""Rows with the labels they must get, for a test on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from totalqboost.ensemble import Ensemble
from totalqboost.export.c.forms import Plan
from totalqboost.export.c.inputs import Float32, Input, Integer
from totalqboost.export.c.orders import Stages
from totalqboost.export.c.weights import rounding_of
from totalqboost.learners import Constant, Stump

__all__ = ["chosen", "passing", "self_test", "twin_numbers"]

N_ROWS = 8


def twin_numbers(plan: Plan, Q: np.ndarray) -> np.ndarray:
    """Return the number of the class of rows as they are handed over, by the header's integers."""
    total = np.tile(np.array(plan.weights.start, dtype=np.int64), (len(Q), 1))
    for term, jumps in zip(plan.terms, plan.weights.jumps, strict=True):
        total += np.outer(plan.input.answers(term.condition, Q), np.array(jumps, dtype=np.int64))
    return total.argmax(axis=1) if plan.n_scores > 1 else (total[:, 0] > 0).astype(int)


def chosen(ensemble: Ensemble) -> np.ndarray:
    """Return rows of values at and right above thresholds, and of missing ones."""
    rng = np.random.default_rng(0)
    X = np.zeros((N_ROWS, len(ensemble.features)), dtype=np.float32)
    parts = [part for h in ensemble.learners for part in getattr(h, "parts", (h,))]
    for j in ensemble.used_features:
        feature = ensemble.features[j]
        if feature.categories is not None:
            X[:, j] = rng.integers(-1, len(feature.categories), N_ROWS)
            continue
        cuts = [h.threshold for h in parts if isinstance(h, Stump) and h.feature == j]
        with np.errstate(over="ignore"):
            near = np.array(cuts or [0.0]).astype(np.float32)
            values = [*near, *np.nextafter(near, np.float32(np.inf))]
        values += [np.float32(np.nan)] if feature.has_missing else []
        X[:, j] = rng.choice(np.array(values, dtype=np.float32), N_ROWS)
    return X


def self_test(plan: Plan, ensemble: Ensemble, X: np.ndarray, stages: Stages | None) -> list[str]:
    """Return a function that counts the rows that get another label than they should."""
    if stages is None:
        rows, expected = _expected(plan, ensemble, X)
    else:
        rows = plan.input.quantized(X)
        expected = passing(ensemble, stages, rows, plan.input).astype(int).tolist()
    used, name, macro = ensemble.used_features, plan.name, plan.macro
    if not used or not len(rows):
        return []
    is_float = isinstance(plan.input, Float32)
    kept = np.ascontiguousarray(rows[:, list(used)])
    cells = kept.view(np.uint32) if is_float else kept
    written = [
        [f"UINT32_C(0x{v:x})" if is_float else str(v) for v in row] for row in cells.tolist()
    ]
    cell_type = "uint32_t" if is_float else plan.input.c_type
    copy = f"rows[(r * {len(used)}U) + k]"
    n = f"{macro}_N_FEATURES"
    return [
        "",
        f"#if defined({macro}_SELF_TEST)",
        "/* The number of rows that get another label than they should: 0 if all is well. */",
        f"static inline int {name}_self_test(void)",
        "{",
        f"    static const {cell_type} rows[{cells.size}] = {{",
        *(f"        {', '.join(row)}," for row in written),
        "    };",
        f"    static const uint16_t used[{len(used)}] = {{{', '.join(f'{j}U' for j in used)}}};",
        f"    static const uint16_t expected[{len(rows)}] = "
        f"{{{', '.join(f'{e}U' for e in expected)}}};",
        f"    static {plan.input.c_type} x[{n}];",
        "    int wrong = 0;",
        "    uint_fast16_t r, k;",
        f"    for (r = 0U; r < {len(rows)}U; r++) {{",
        f"        for (k = 0U; k < {len(used)}U; k++) {{",
        f"            (void)memcpy(&x[used[k]], &{copy}, sizeof x[0]);"
        if is_float
        else f"            x[used[k]] = {copy};",
        "        }",
        f"        wrong += ({name}_predict(x) != (int)expected[r]) ? 1 : 0;",
        "    }",
        "    return wrong;",
        "}",
        "#endif",
    ]


def passing(
    ensemble: Ensemble, stages: Stages, rows: np.ndarray, read: Input | None = None
) -> np.ndarray:
    """Return which rows no threshold rejects: as they are handed over, or numbers and codes.

    Sums that are equal to a threshold but for rounding pass, as in C.
    """
    base = np.array([float(ensemble.intercept)])
    tie = rounding_of(np.array(ensemble.weights, dtype=float)[:, None], base)
    total = np.full(len(rows), base[0])
    label = np.ones(len(rows), dtype=bool)
    own: Any
    for own, weight, t in zip(ensemble.learners, ensemble.weights, stages.thresholds, strict=True):
        if read is None or isinstance(own, Constant):
            total += weight * own.predict(rows)
        else:
            total += weight * np.where(read.answers(own, rows), 1.0, -1.0)
        label &= total >= t - tie
    return label & ((total > 0) | stages.is_detector)


def _expected(plan: Plan, ensemble: Ensemble, X: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Return rows as they are handed over with their labels.

    Of floats those of the library; rows whose score is 0 but for rounding are left out.
    """
    if isinstance(plan.input, Integer):
        Q = plan.input.quantized(X)
        return Q, twin_numbers(plan, Q).tolist()
    X = plan.input.quantized(X)
    scores = ensemble.scores(X)
    own = scores.argmax(axis=1) if ensemble.is_multiclass else (scores > 0).astype(int)
    is_sure = own == twin_numbers(plan, X)
    return X[is_sure], own[is_sure].tolist()
