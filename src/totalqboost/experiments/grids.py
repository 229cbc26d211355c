"""Grids of penalties that follow from the data, so that all sizes of ensembles come up.

With risk(k) the lowest risk of k columns, a penalty lam keeps the k that minimises
risk(k) + lam k: a corner of the lower convex envelope of risk(k), chosen as long as lam is
between the slopes on its two sides. So a penalty between the two slopes of each corner meets
every size that a penalty can meet.
"""

from __future__ import annotations

import numpy as np

from totalqboost.experiments.baselines.subsets import backward_elimination
from totalqboost.master import MasterProblem

__all__ = ["eliminated_risks", "lower_envelope", "penalty_grid"]


def penalty_grid(risks: np.ndarray, n_penalties: int) -> np.ndarray:
    """Return penalties, falling, from where nothing pays to where all columns do.

    Parameters
    ----------
    risks : array
        (An estimate of) the lowest risk of 0, 1, 2, ... columns.
    n_penalties : int
        Length of the grid. More corners than that are thinned evenly on a log scale of
        sizes; fewer are filled up where sizes jump most.
    """
    corners = lower_envelope(risks)
    slopes = -np.diff(risks[corners]) / np.diff(corners)
    if len(slopes) == 0:  # no column lowers the risk
        return np.geomspace(1.0, 1e-3, n_penalties)
    inner = np.sqrt(slopes * np.append(slopes[1:], slopes[-1] / 4))
    kept = np.arange(len(inner))
    if len(inner) > n_penalties - 1:
        place = np.log(corners[1:])
        wanted = np.linspace(place[0], place[-1], n_penalties - 1)
        kept = _thinned(place, wanted)
    grid = np.concatenate([[1.001 * slopes[0]], inner[kept]])
    sizes = np.concatenate([[0.0], corners[1:][kept]])
    while len(grid) < n_penalties:
        jump = int(np.argmax(np.diff(sizes))) + 1
        grid = np.insert(grid, jump, np.sqrt(grid[jump - 1] * grid[jump]))
        sizes = np.insert(sizes, jump, 0.5 * (sizes[jump - 1] + sizes[jump]))
    return grid


def _thinned(place: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return rising indices of ``place``, one for each of ``wanted``, as near as they can be."""
    chosen = np.empty(len(wanted), dtype=int)
    last = -1
    for i, target in enumerate(wanted):
        room = len(place) - (len(wanted) - i)  # leave one for each that follows
        last = min(max(int(np.argmin(np.abs(place - target))), last + 1), room)
        chosen[i] = last
    return chosen


def lower_envelope(values: np.ndarray) -> np.ndarray:
    """Return the indices of the corners of the lower convex envelope of a sequence."""
    corners: list[int] = []
    for k in range(len(values)):
        while len(corners) > 1:
            i, j = corners[-2], corners[-1]
            if (values[j] - values[i]) * (k - i) < (values[k] - values[i]) * (j - i):
                break
            corners.pop()
        corners.append(k)
    lowest = int(np.argmin(values[corners]))
    return np.array(corners[: lowest + 1])


def eliminated_risks(problem: MasterProblem) -> np.ndarray:
    """Return the risk with 0, 1, ... columns, by dropping the least useful one at a time."""
    risks = np.full(int(np.count_nonzero(problem.cost > 0)) + 1, np.inf)
    for n_left, _, risk in backward_elimination(problem):
        risks[n_left] = risk
    return np.minimum.accumulate(risks)
