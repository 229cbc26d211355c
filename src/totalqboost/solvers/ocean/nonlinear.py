"""The master problem itself as a nonlinear model of ``dwave.optimization``: no approximation.

The part of the paper's "Blackbox compiler": a sampler gets the loss as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost.fixed_point import check_bits, checked_step, grid_step, nearest_levels, top_level
from totalqboost.kernels.groups import NO_LIMIT
from totalqboost.kernels.loss_codes import CUSTOM, EXPONENTIAL, LOGISTIC, SMOOTHED_HINGE, SQUARED
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers.ocean.extras import needs
from totalqboost.solvers.ocean.reads import check_levels

__all__ = ["NonlinearModel", "build_nonlinear", "check_loss"]


@dataclass(frozen=True, eq=False)
class NonlinearModel:
    """A nonlinear model of the master problem, and the way back from its states to weights.

    Attributes
    ----------
    model : dwave.optimization.Model
        Pass it to a sampler of nonlinear models.
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
    >>> from totalqboost.solvers import build_nonlinear
    >>> model = build_nonlinear(problem)
    >>> model.n_bits
    6
    """

    model: Any
    step: np.ndarray
    n_bits: int

    second_order = None  # the model is exact

    @property
    def n_variables(self) -> int:
        return len(self.step)

    @property
    def n_interactions(self) -> int:
        """Nodes of the model: what a sampler of nonlinear models counts."""
        return int(self.model.num_nodes())

    def decode(self, model: Any = None) -> np.ndarray:
        """Return the weights of each state, shape (n_states, n_columns).

        ``model`` is by default the one built here, with the states that a sampler gave it;
        pass one that was read from a file to decode that.
        """
        model = self.model if model is None else model
        return self.step * self._levels(model)

    def _levels(self, model: Any) -> np.ndarray:
        k = next(model.iter_decisions())
        states = [np.array(k.state(i), dtype=float) for i in range(model.states.size())]
        levels = np.reshape(states, (len(states), len(self.step)))
        check_levels(levels, [f"k{j}" for j in range(len(self.step))], top_level(self.n_bits))
        return levels

    def put(self, w: np.ndarray) -> None:
        """Make the levels nearest to each row of w the states of the model."""
        levels = nearest_levels(np.atleast_2d(w), self.step, self.n_bits)
        self.model.states.resize(len(levels))
        k = next(self.model.iter_decisions())
        for i, row in enumerate(levels):
            k.set_state(i, row)


def build_nonlinear(
    problem: MasterProblem,
    *,
    n_bits: int = 6,
    step: np.ndarray | float | None = None,
) -> NonlinearModel:
    """Return the exact objective as a ``dwave.optimization.Model``.

    With w_j = step_j k_j, k_j an integer from 0 to 2^n_bits - 1, the model minimises::

        sum_i c_i l(A_i w) + nu sum_j w_j + sum_j (lam cost_j + fee_j) [k_j >= 1]
        + sum_g feature_price_g [some k_j >= 1 that reads g]

    for any of the built-in losses l, subject to sum_j [k_j >= 1] <= max_learners over the
    columns of positive cost, and to at most max_features features that are read, if there are
    limits. Rows that are equal are merged.

    Parameters
    ----------
    problem : MasterProblem
        What to model.
    n_bits : int
        Depth of the weights.
    step : array or float, optional
        Spans 1.6 times the largest weight of the l1 optimum over all columns by default.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from totalqboost.solvers import build_nonlinear
    >>> model = build_nonlinear(problem)
    >>> model.step.shape
    (6,)
    """
    with needs("dwave"):
        from dwave.optimization import Model
        from dwave.optimization.mathematical import matmul

    check_bits(n_bits)
    check_loss(problem)
    if problem.n_columns == 0:
        raise ValueError("problem must have at least one column")
    if step is None:
        continuous = refit(problem, np.arange(problem.n_columns), tol=1e-6)
        step = grid_step(continuous, problem.cost == 0, n_bits)
    step = checked_step(step, problem.n_columns)
    merged = problem.merged()
    model = Model()
    k = model.integer(problem.n_columns, lower_bound=0, upper_bound=top_level(n_bits))
    w = model.constant(step) * k
    z = matmul(model.constant(np.ascontiguousarray(merged.A.T, dtype=float)), w)
    total = (model.constant(merged.sample_weight) * _loss(model, merged, z)).sum()
    total = total + (model.constant(problem.nus) * w).sum()
    is_kept = k >= model.constant(1)
    if problem.prices.any():
        total = total + (model.constant(problem.prices) * is_kept).sum()
    if problem.has_groups:
        readers = np.ascontiguousarray(problem.group_reads.T, dtype=float)
        is_read = matmul(model.constant(readers), is_kept) >= model.constant(1)
        total = total + (model.constant(problem.groups.price) * is_read).sum()
        if problem.groups.limit < NO_LIMIT:
            model.add_constraint(is_read.sum() <= model.constant(problem.groups.limit))
    model.minimize(total)
    if problem.max_learners is not None:
        counts = model.constant((problem.cost > 0).astype(float))
        model.add_constraint((counts * is_kept).sum() <= model.constant(problem.max_learners))
    return NonlinearModel(model, step, n_bits)


def _loss(model: Any, problem: MasterProblem, z: Any) -> Any:
    """Return l(z) as a symbol of the model."""
    with needs("dwave"):
        from dwave.optimization.mathematical import absolute, exp, log, maximum, minimum

    zero, one = model.constant(0.0), model.constant(1.0)
    code = problem.loss.code
    if code == EXPONENTIAL:
        return exp(-z)
    if code == LOGISTIC:  # without overflow
        return maximum(-z, zero) + log(one + exp(-absolute(z)))
    if code == SQUARED:
        return (one - z) * (one - z)
    if code == SMOOTHED_HINGE:
        inside = minimum(maximum(one - z, zero), one)
        return model.constant(0.5) * inside * inside + maximum(-z, zero)
    raise AssertionError(f"no symbol for {problem.loss!r}")  # check_loss has seen to it


def check_loss(problem: MasterProblem) -> None:
    """Raise ValueError for a loss of the user's own: a nonlinear model needs its formula."""
    if problem.loss.code == CUSTOM:
        raise ValueError(
            "loss must be 'exponential', 'logistic', 'squared' or 'smoothed_hinge' for a "
            f"nonlinear model, got {problem.loss!r}; BQMSolver and CQMSolver take any loss"
        )
