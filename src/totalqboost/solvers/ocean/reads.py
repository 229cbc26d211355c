"""From the samples of any sampler to arrays, by label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from totalqboost.solvers.ocean.extras import needs

__all__ = ["columns_of"]


def columns_of(samples: Any, labels: Sequence[str]) -> np.ndarray:
    """Return the values of the labelled variables, one row per read, as whole numbers.

    Samplers return variables in any order, composites may add some, and a BQM may come back
    in spins: labels decide, -1 reads as 0.
    """
    with needs("annealing"):
        import dimod

    is_spin = isinstance(samples, dimod.SampleSet) and samples.vartype is dimod.SPIN
    values, variables = dimod.as_samples(samples)
    position = {label: k for k, label in enumerate(variables)}
    missing = [label for label in labels if label not in position]
    if missing:
        raise ValueError(
            f"samples must have the variables of the model; {missing[0]!r} is missing"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
        )
    chosen = np.asarray(values, dtype=float)[:, [position[label] for label in labels]]
    if not np.isfinite(chosen).all():
        raise ValueError("samples must be finite numbers")
    if is_spin:
        chosen = (chosen + 1) / 2
    return np.rint(chosen)
