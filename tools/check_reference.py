"""Check the loaded data sets against a reference copy of the IDA benchmarks.

    python tools/check_reference.py --reference PATH.npz

The reference holds ``<name>_X`` and ``<name>_y``, spaces in names being underscores. IDA scaled
its columns and shuffled its rows, so equality is up to an increasing map per column and the order
of rows: rows are paired by their ranks in all columns, and then the pairs must agree in the label
and in the order of every two values of a column. Neighbours that are tied on
one side only must be ROUNDING apart on the other at most (one side gives more digits); they are
counted. Drawn sets are other draws: only their counts are compared.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import rankdata

from totalqboost import datasets
from totalqboost.datasets.shipped import DRAWN

ROUNDING = 1e-5  # standard deviations of the column


def compare(
    X: np.ndarray, y: np.ndarray, X_reference: np.ndarray, y_reference: np.ndarray
) -> tuple[bool, str]:
    """Return whether the data are the same up to rounding, and a remark on how."""
    partner = pair_rows(X, y, X_reference, y_reference)
    if len(np.unique(partner)) < len(y):
        return False, f"only {len(np.unique(partner))} of {len(y)} rows have a partner"
    X_reference, y_reference = X_reference[partner], y_reference[partner]
    if (y != y_reference).any():
        return False, f"{(y != y_reference).sum()} labels differ"
    pairs = list(zip(X.T, X_reference.T, strict=True))
    swapped = [column for column, (a, b) in enumerate(pairs) if not same_order(a, b)]
    if swapped:
        return False, f"columns {swapped} are ordered otherwise"
    gaps = np.concatenate([lost_gaps(a, b) for a, b in pairs])
    if (gaps > ROUNDING).any():
        return False, f"{(gaps > ROUNDING).sum()} ties that no rounding explains"
    remark = "same ranks"
    if len(gaps):
        remark = f"same order, {len(gaps)} ties by rounding (gaps <= {gaps.max():.0e})"
    in_order = (partner == np.arange(len(y))).all()
    return True, remark + (", same rows in order" if in_order else ", rows in another order")


def pair_rows(
    X: np.ndarray, y: np.ndarray, X_reference: np.ndarray, y_reference: np.ndarray
) -> np.ndarray:
    """Return for each row the row of the reference with the nearest ranks and the same label."""

    def place(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        far = X.size  # no difference in ranks outweighs one in the label
        return np.column_stack([rankdata(X, axis=0), far * y])

    _, partner = cKDTree(place(X_reference, y_reference)).query(place(X, y))
    return partner


def same_order(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether no two rows stand one way in a and the other way in b."""
    return bool((np.diff(b[np.lexsort((b, a))]) >= 0).all())


def lost_gaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the gaps, in standard deviations, of neighbours that the other side has tied."""
    order = np.lexsort((b, a))
    gaps_a, gaps_b = np.diff(a[order]) / a.std(), np.diff(b[order]) / b.std()
    one_sided = (gaps_a == 0) != (gaps_b == 0)
    return np.maximum(gaps_a, gaps_b)[one_sided]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the data sets with a reference copy.")
    parser.add_argument("--reference", type=Path, required=True, metavar="PATH.npz")
    reference = np.load(parser.parse_args().reference)
    all_same = True
    for name in datasets.names():
        X, y = datasets.load(name)
        key = name.replace(" ", "_")
        X_reference, y_reference = reference[f"{key}_X"], reference[f"{key}_y"]
        n_positive = (y == 1).sum(), (y_reference == 1).sum()
        if X.shape != X_reference.shape or n_positive[0] != n_positive[1]:
            same, remark = False, "shapes or class counts differ"
        elif name in DRAWN:
            same, remark = True, "drawn: counts agree"
        else:
            same, remark = compare(X, y, X_reference, y_reference)
        print(f"{name:13s} {X.shape[0]:5d} x {X.shape[1]:2d}  {'ok' if same else 'NO'}  {remark}")
        all_same &= same
    if not all_same:
        raise SystemExit("not the reference's data")


if __name__ == "__main__":
    main()
