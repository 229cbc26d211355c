"""From the samples of any sampler to arrays, by label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from totalqboost.solvers.ocean.extras import needs

__all__ = ["check_levels", "columns_of"]

ROUNDING = 1e-6  # some samplers return whole numbers as floats


def columns_of(samples: Any, labels: Sequence[str], top: int) -> np.ndarray:
    """Return the values of the labelled variables, one row per read, integers from 0 to top.

    Samplers return variables in any order, composites may add some, and a BQM may come back
    in spins: labels decide, -1 reads as 0.
    """
    with needs("annealing"):
        import dimod

    is_spin = isinstance(samples, dimod.SampleSet) and samples.vartype is dimod.SPIN
    values, variables = dimod.as_samples(samples)
    if len(values) == 0:  # such a sample set may have no variables either
        return np.empty((0, len(labels)))
    position = {label: k for k, label in enumerate(variables)}
    missing = [label for label in labels if label not in position]
    if missing:
        raise ValueError(
            f"samples must have the variables of the model; {missing[0]!r} is missing"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
        )
    chosen = np.asarray(values, dtype=float)[:, [position[label] for label in labels]]
    if is_spin:
        chosen = (chosen + 1) / 2
    check_levels(chosen, labels, top)
    return np.rint(chosen)


def check_levels(values: np.ndarray, labels: Sequence[str], top: int) -> None:
    """Raise ValueError unless all values are whole numbers from 0 to top."""
    whole = np.rint(values)
    is_good = (np.abs(values - whole) <= ROUNDING) & (whole >= 0) & (whole <= top)  # not for NaN
    if not is_good.all():
        read, column = np.argwhere(~is_good)[0]
        raise ValueError(
            f"samples must hold whole numbers from 0 to {top}, "
            f"got {values[read, column]:g} for {labels[column]!r}"
        )
