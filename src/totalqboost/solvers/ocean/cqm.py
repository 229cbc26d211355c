"""The master problem as a constrained quadratic model (CQM) with integer weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost.fixed_point import check_bits, checked_step, grid_step, top_level
from totalqboost.kernels.groups import NO_LIMIT
from totalqboost.master import MasterProblem
from totalqboost.solvers.ocean.extras import needs
from totalqboost.solvers.ocean.reads import columns_of
from totalqboost.solvers.ocean.second_order import SecondOrderModel

__all__ = ["CQMModel", "build_cqm"]


@dataclass(frozen=True, eq=False)
class CQMModel:
    """A CQM of the master problem, and the way back from its samples to weights.

    Attributes
    ----------
    cqm : dimod.ConstrainedQuadraticModel
        Pass it to any sampler with ``sample_cqm``.
    second_order : SecondOrderModel
        What it was built from.
    step : array of shape (n_columns,)
        w_j = step_j k_j.
    n_bits : int
        k_j is an integer from 0 to 2^n_bits - 1.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from totalqboost.solvers import build_cqm
    >>> model = build_cqm(problem)
    >>> len(model.cqm.variables)
    12
    """

    cqm: Any
    second_order: SecondOrderModel
    step: np.ndarray
    n_bits: int

    @property
    def n_variables(self) -> int:
        return len(self.cqm.variables)

    @property
    def n_interactions(self) -> int:
        return int(self.cqm.objective.num_interactions)

    def decode(self, samples: Any) -> np.ndarray:
        """Return the weights of each read, shape (n_reads, n_columns).

        The integers k_j alone count; whether a read satisfies the constraints is for
        ``problem.is_feasible`` to say.
        """
        labels = [f"k{j}" for j in range(len(self.step))]
        return self.step * columns_of(samples, labels, top_level(self.n_bits))


def build_cqm(
    problem: MasterProblem,
    at: np.ndarray | None = None,
    *,
    n_bits: int = 6,
    step: np.ndarray | float | None = None,
    kappa: float = 1.0,
) -> CQMModel:
    """Return the second-order model of the master problem at a point as a CQM.

    With w_j = step_j k_j, k_j an integer from 0 to 2^n_bits - 1, R :class:`SecondOrderModel`::

        minimise    R(w) + nu sum_j w_j + sum_j (lam cost_j + fee_j) z_j + sum_g price_g f_g
        subject to  k_j <= (2^n_bits - 1) z_j     for every column of positive cost
                    z_j <= f_g                    for every feature g that column j reads
                    sum_j z_j <= max_learners     if there is a limit
                    sum_g f_g <= max_features     if there is a limit

    A column of one bit is its own indicator, and one that costs nothing needs none. For
    ``loss="squared"``, ``kappa=1`` the optimum is that of ``problem`` on the grid; for other
    losses score what you decode with ``problem.objective``.

    Parameters
    ----------
    problem : MasterProblem
        What to model.
    at : array of shape (n_columns,), optional
        The point of the second-order model; by default the l1 optimum over all columns.
    n_bits : int
        Depth of the weights.
    step : array or float, optional
        Spans 1.6 times the largest weight of ``at`` by default.
    kappa : float
        Trust factor: multiplies the curvature.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from totalqboost.solvers import build_cqm
    >>> model = build_cqm(problem)
    >>> model.n_bits
    6
    """
    with needs("annealing"):
        import dimod

    check_bits(n_bits)
    model = SecondOrderModel.of(problem, at, kappa)
    step = grid_step(model.at, problem.cost == 0, n_bits) if step is None else step
    step = checked_step(step, problem.n_columns)
    top = top_level(n_bits)
    objective = dimod.QuadraticModel()
    H = model.hessian * np.outer(step, step)
    for j in range(problem.n_columns):
        objective.add_variable("INTEGER", f"k{j}", lower_bound=0, upper_bound=top)
        objective.add_linear(f"k{j}", model.linear[j] * step[j])
        objective.add_quadratic(f"k{j}", f"k{j}", 0.5 * H[j, j])
        for i in range(j):
            objective.add_quadratic(f"k{i}", f"k{j}", H[i, j])
    objective.offset = model.offset
    return CQMModel(_with_cardinality(objective, problem, top), model, step, n_bits)


def _with_cardinality(objective: Any, problem: MasterProblem, top: int) -> Any:
    """Return the CQM of the objective with prices and indicators of the columns."""
    with needs("annealing"):
        import dimod

    price, reads = problem.prices, problem.group_reads
    priced = np.flatnonzero(problem.cost > 0)
    limit = problem.max_learners
    is_limited = limit is not None and limit < len(priced)
    kept_bits: dict[int, str] = {}
    links = []
    for j in map(int, priced):
        if top == 1:
            kept = f"k{j}"
        elif price[j] > 0 or is_limited or reads[j].any():
            kept = f"z{j}"
            objective.add_variable("BINARY", kept)
            links.append((f"k{j}", kept))
        else:
            continue
        objective.add_linear(kept, price[j])
        kept_bits[j] = kept
    features = [f"f{g}" for g in range(len(problem.groups.price))]
    for label, feature_price in zip(features, problem.groups.price, strict=True):
        objective.add_variable("BINARY", label)
        objective.add_linear(label, feature_price)
    cqm = dimod.ConstrainedQuadraticModel()
    cqm.set_objective(objective)
    for k, z in links:
        cqm.add_constraint_from_iterable([(k, 1), (z, -top)], "<=", label=f"{z} marks {k}")
    for j, g in np.argwhere(reads):
        z, f = kept_bits[int(j)], features[g]
        cqm.add_constraint_from_iterable([(z, 1), (f, -1)], "<=", label=f"{z} reads {f}")
    if is_limited:
        counted = [(kept, 1) for kept in kept_bits.values()]
        cqm.add_constraint_from_iterable(counted, "<=", rhs=limit, label="max_learners")
    if problem.groups.limit < NO_LIMIT:
        read, most = [(f, 1) for f in features], problem.groups.limit
        cqm.add_constraint_from_iterable(read, "<=", rhs=most, label="max_features")
    return cqm
