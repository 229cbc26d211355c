"""The master problem as a binary quadratic model (BQM, QUBO) of one or several bits a column.

With w_j = step_j * sum_b 2^b q_jb the second-order model is a quadratic function of the bits q,
and the price p_j = lam cost_j + fee_j costs one auxiliary bit z_j per column::

    p_j [ z_j + (1 - z_j) sum_b q_jb ]

Its minimum over z_j is p_j [w_j > 0]: with z_j = 1 it is p_j, with z_j = 0 it is
p_j times the number of bits set. No constant beyond p_j is needed ("big M"), so the range
of the coefficients does not grow. A column of one bit needs no auxiliary, nor does a free one.

A feature g of price P_g that columns read has a bit f_g, by the same trick::

    P_g [ f_g + (1 - f_g) sum_j z_j ],   j over the columns that read g

and the link (1 - z_j) sum_b q_jb of such a column weighs p_j and all P_g that it reads.

A limit, ``problem.max_learners`` = k, becomes P (sum_j z_j + slack - k)^2 with slack bits that
count from 0 to k, and P (1 - z_j) sum_b q_jb takes the place of the term above where
P > p_j; ``max_features`` likewise, with f_g for z_j. P exceeds what any infeasible state could
gain over the empty ensemble, so the minimum is exact, but it is large: annealers of limited
precision prefer prices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost.fixed_point import check_bits, checked_step, grid_step, top_level
from totalqboost.kernels.groups import NO_LIMIT
from totalqboost.master import MasterProblem
from totalqboost.solvers.ocean.extras import needs
from totalqboost.solvers.ocean.reads import columns_of
from totalqboost.solvers.ocean.second_order import SecondOrderModel, indicator_step

__all__ = ["BQMModel", "build_bqm"]

ENCODINGS = ("indicator", "binary")


@dataclass(frozen=True, eq=False)
class BQMModel:
    """A BQM of the master problem, and the way back from its samples to weights.

    Attributes
    ----------
    bqm : dimod.BinaryQuadraticModel
        Pass it to any ``dimod.Sampler``.
    second_order : SecondOrderModel
        What it was built from.
    step : array of shape (n_columns,)
        w_j = step_j * (the integer that the bits of column j spell).
    bits : list of list of str
        Labels of the bits of each column, the lowest first.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from totalqboost.solvers import build_bqm
    >>> model = build_bqm(problem)
    >>> model.bqm.num_variables
    6
    """

    bqm: Any
    second_order: SecondOrderModel
    step: np.ndarray
    bits: list[list[str]]

    @property
    def n_variables(self) -> int:
        return int(self.bqm.num_variables)

    @property
    def n_interactions(self) -> int:
        return int(self.bqm.num_interactions)

    def decode(self, samples: Any) -> np.ndarray:
        """Return the weights of each read, shape (n_reads, n_columns).

        ``samples`` is a ``dimod.SampleSet`` or whatever ``dimod.as_samples`` takes. Reads are
        mapped by label; auxiliary bits play no part.
        """
        n_bits = len(self.bits[0]) if self.bits else 1
        reads = columns_of(samples, [label for column in self.bits for label in column], 1)
        levels = reads.reshape(len(reads), len(self.bits), n_bits) @ 2 ** np.arange(n_bits)
        return self.step * levels


def build_bqm(
    problem: MasterProblem,
    at: np.ndarray | None = None,
    encoding: str = "indicator",
    *,
    n_bits: int = 3,
    step: np.ndarray | float | None = None,
    kappa: float = 1.0,
) -> BQMModel:
    """Return the second-order model of the master problem at a point as a BQM.

    For ``loss="squared"``, ``kappa=1`` the BQM equals ``problem.objective`` at every state
    (with the best auxiliary bits), whatever the point: this is QBoost of Neven et al. (2008),
    with one bit and ``step=1/n`` their very form. For other losses it is an approximation near
    the point: score what you decode with ``problem.objective``.

    Parameters
    ----------
    problem : MasterProblem
        What to model.
    at : array of shape (n_columns,), optional
        The point of the second-order model; by default the l1 optimum over all columns.
    encoding : {"indicator", "binary"}
        "indicator": one bit per column, whose weight if kept is ``step``; n variables.
        "binary": ``n_bits`` per column and one auxiliary bit.
    n_bits : int
        Depth of the binary encoding.
    step : array or float, optional
        By default, "indicator" keeps the weights of ``at`` and takes a Newton step for the
        others; "binary" spans 1.6 times the largest weight of ``at``.
    kappa : float
        Trust factor: multiplies the curvature.

    Examples
    --------
    >>> import dimod, numpy as np
    >>> from totalqboost import MasterProblem
    >>> from totalqboost.solvers.ocean import build_bqm
    >>> A = np.array([[1, 1, 1, -1], [1, 1, -1, 1], [-1, 1, 1, -1]])
    >>> problem = MasterProblem(A, lam=0.05, loss="squared")
    >>> model = build_bqm(problem, encoding="binary", n_bits=2, step=0.2)
    >>> best = dimod.ExactSolver().sample(model.bqm).first
    >>> w = model.decode(best.sample)[0]
    >>> w, abs(best.energy - problem.objective(w)) < 1e-12
    (array([0.4, 0.4, 0. ]), np.True_)
    """
    if encoding not in ENCODINGS:
        raise ValueError(f"encoding must be one of {ENCODINGS}, got {encoding!r}")
    check_bits(n_bits)
    n_bits = 1 if encoding == "indicator" else n_bits
    model = SecondOrderModel.of(problem, at, kappa)
    if step is not None:
        step = checked_step(step, problem.n_columns)
    elif encoding == "indicator":
        step = indicator_step(model)
    else:
        step = grid_step(model.at, problem.cost == 0, n_bits)
    form = "z{j}" if encoding == "indicator" else "q{j}_{b}"
    bits = [[form.format(j=j, b=b) for b in range(n_bits)] for j in range(problem.n_columns)]
    bqm = _smooth_part(model, step, bits)
    _add_cardinality(bqm, model, bits, step * top_level(n_bits))
    return BQMModel(bqm, model, step, bits)


def _smooth_part(model: SecondOrderModel, step: np.ndarray, bits: list[list[str]]) -> Any:
    """Return the second-order model of the risk and the l1 term as a BQM."""
    with needs("annealing"):
        import dimod

    n_bits = len(bits[0]) if bits else 1
    size = (step[:, None] * 2.0 ** np.arange(n_bits)).ravel()  # what each bit is worth
    H = np.repeat(np.repeat(model.hessian, n_bits, axis=0), n_bits, axis=1) * np.outer(size, size)
    linear = np.repeat(model.linear, n_bits) * size + 0.5 * np.diag(H)
    row, col = np.triu_indices(len(size), 1)
    labels = [label for column in bits for label in column]
    return dimod.BinaryQuadraticModel.from_numpy_vectors(
        linear, (row, col, H[row, col]), model.offset, "BINARY", variable_order=labels
    )


def _add_cardinality(
    bqm: Any, model: SecondOrderModel, bits: list[list[str]], top: np.ndarray
) -> None:
    """Add the prices of columns and of features and, if there are any, the limits."""
    problem = model.problem
    price, reads = problem.prices, problem.group_reads
    priced = np.flatnonzero(problem.cost > 0)
    limit = problem.max_learners
    is_limited = limit is not None and limit < len(priced)
    has_limits = is_limited or problem.groups.limit < NO_LIMIT
    # No state gains more than this over the empty ensemble, whose energy is the offset.
    gain = model.offset - model.lower_bound(top)
    penalty = gain + 1e-3 * (abs(gain) + abs(model.offset)) if has_limits else 0.0
    kept: dict[int, str] = {}
    for j in map(int, priced):
        if len(bits[j]) == 1:
            kept[j] = bits[j][0]
            bqm.add_linear(kept[j], price[j])
        elif price[j] > 0 or is_limited or reads[j].any():
            kept[j] = f"z{j}"
            bqm.add_linear(kept[j], price[j])
            link = max(penalty, price[j] + float(reads[j] @ problem.groups.price))
            for bit in bits[j]:
                bqm.add_linear(bit, link)
                bqm.add_quadratic(kept[j], bit, -link)
    if is_limited:
        assert limit is not None
        _add_limit(bqm, list(kept.values()), limit, penalty, "slack")
    if problem.has_groups:
        _add_features(bqm, problem, kept, penalty)


def _add_features(bqm: Any, problem: MasterProblem, kept: dict[int, str], penalty: float) -> None:
    """Add the price of every feature that some kept column reads, and the limit on them."""
    _, _, price, limit = problem.groups
    labels = [f"f{g}" for g in range(len(price))]
    for g, label in enumerate(labels):
        bqm.add_linear(label, price[g])
        link = max(penalty if limit < NO_LIMIT else 0.0, price[g])
        for j in map(int, np.flatnonzero(problem.group_reads[:, g])):
            bqm.add_linear(kept[j], link)
            bqm.add_quadratic(label, kept[j], -link)
    if limit < NO_LIMIT:
        _add_limit(bqm, labels, limit, penalty, "room")


def _add_limit(bqm: Any, labels: list[str], limit: int, penalty: float, name: str) -> None:
    """Add a penalty for more than so many of the bits, with slack bits of that name."""
    slack = [(f"{name}{b}", float(size)) for b, size in enumerate(_slack_sizes(limit))]
    for label, _ in slack:
        bqm.add_variable(label)
    terms = [(label, 1.0) for label in labels] + slack
    bqm.add_linear_equality_constraint(terms, penalty, -float(limit))


def _slack_sizes(limit: int) -> list[int]:
    """Return sizes whose subsets sum to every number from 0 to the limit and no other."""
    sizes: list[int] = []
    while limit > 0:
        sizes.append(min(1 << len(sizes), limit))
        limit -= sizes[-1]
    return sizes
