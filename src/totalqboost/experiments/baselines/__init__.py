"""Baselines on the same dictionary: AdaBoost, LPBoost and ERLPBoost.

Write z_i = sum_j w_j A[j, i] for the margins of the ensemble, A[j, i] = y_i h_j(x_i), and c
for the normalised sample weights. Each baseline keeps a distribution d over the examples and
asks the oracle for the column of the largest edge sum_i d_i y_i h(x_i).

adaboost (corrective)
    d_i ~ c_i exp(-z_i); the chosen column alone gets weight, ln((1 + edge) / (1 - edge)) / 2.
    Freund and Schapire, A decision-theoretic generalization of on-line learning, 1997.

lpboost (totally corrective)
    maximise the soft margin  rho - sum_i c_i max(0, rho - z_i) / nu  over w in the simplex
    = minimise  max_j sum_i d_i A[j, i]  over the capped simplex  sum_i d_i = 1, d_i <= c_i / nu.
    Demiriz, Bennett and Shawe-Taylor, Linear programming boosting via column generation, 2002.

erlpboost (totally corrective)
    minimise  max_j sum_i d_i A[j, i] + KL(d, c) / eta  over the same capped simplex,
    eta = max(2 ln(1 / nu) / tol, 1/2). KL is at most ln(1 / nu) there, so the optimum is that
    of LPBoost within tol / 2, and d and w are unique and stable.
    Warmuth, Glocer and Vishwanathan, Entropy regularized LPBoost, 2008. Their nu is our
    nu times the number of examples; they hand the final columns to the linear program once
    more, we keep the w of each round's own problem, which is optimal within the same tol / 2.

The two masters report what they minimise, minus the (regularised) soft margin, and a lower
bound of it over the whole dictionary: from any d of the capped simplex, weak duality gives
-max_h sum_i d_i y_i h(x_i) - KL(d, c) / eta.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from totalqboost.dictionaries.base import Oracle
from totalqboost.experiments.baselines.corrective import adaboost
from totalqboost.experiments.baselines.entropy import EntropyMaster
from totalqboost.experiments.baselines.generation import Stage, totally_corrective
from totalqboost.experiments.baselines.linear import LinearMaster
from totalqboost.master import normalised

__all__ = ["BASELINES", "SOFT_MARGINS", "Stage", "baseline_stages"]

BASELINES = ("adaboost", "lpboost", "erlpboost")
SOFT_MARGINS = (0.1, 0.3, 0.5)  # nu: for clean, middling and noisy data


def baseline_stages(
    name: str,
    oracle: Oracle,
    y: np.ndarray,
    *,
    max_rounds: int = 100,
    sample_weight: np.ndarray | None = None,
    nu: float = 0.3,
    tol: float = 0.01,
) -> Iterator[Stage]:
    """Run a baseline round by round.

    Parameters
    ----------
    name : {"adaboost", "lpboost", "erlpboost"}
        Which baseline.
    oracle : Oracle
        A prepared dictionary; columns are priced by their edge.
    y : array of -1 and +1
        Labels that the oracle was prepared with.
    max_rounds : int
        Largest number of rounds.
    sample_weight : array, optional
        Weight c_i per example, normalised to sum to one.
    nu : float
        The soft margin is the mean of this share of the margins, the lowest; above 0, at
        most 1, and AdaBoost has none. Small shares suit clean data: well below twice the
        training error the best soft margin is about 0, and LPBoost's weights mean little
        (early on it may even hold a column together with its opposite).
    tol : float
        Accuracy of the soft margin: a totally corrective baseline stops when it is reached,
        and ERLPBoost's eta follows from it. AdaBoost stops only at a perfect column or when
        no column is better than chance.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost.dictionaries import Stumps
    >>> X, y = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([-1, 1, 1, -1])
    >>> stages = baseline_stages("lpboost", Stumps().prepare(X, y), y, nu=0.25)
    >>> [stage.ensemble.n_learners for stage in stages]
    [1, 2, 2, 2, 3]
    """
    c = normalised(sample_weight, len(y))
    if max_rounds < 1:
        raise ValueError(f"max_rounds must be >= 1, got {max_rounds!r}")
    if name not in BASELINES:
        raise ValueError(f"name must be one of {list(BASELINES)}, got {name!r}")
    if not 0 < nu <= 1:
        raise ValueError(f"nu must be above 0 and at most 1, got {nu!r}")
    if not tol > 0:
        raise ValueError(f"tol must be > 0, got {tol!r}")
    if name == "adaboost":
        return adaboost(oracle, c, max_rounds)
    present = c[c > 0]
    if name == "lpboost":
        return totally_corrective(oracle, c, max_rounds, LinearMaster(present, nu).solve, tol)
    eta = max(2.0 * np.log(1.0 / nu) / tol, 0.5)
    master = EntropyMaster(present, nu, eta)
    return totally_corrective(oracle, c, max_rounds, master.solve, tol / 2)
