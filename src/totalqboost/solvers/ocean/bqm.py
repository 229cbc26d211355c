"""The master problem as a binary quadratic model (BQM, QUBO) of one or several bits a column.

With w_j = step_j * sum_b 2^b q_jb the second-order model is a quadratic function of the bits q,
and the cardinality costs one auxiliary bit z_j per column::

    lam cost_j [ z_j + (1 - z_j) sum_b q_jb ]

Its minimum over z_j is lam cost_j [w_j > 0]: with z_j = 1 it is lam cost_j, with z_j = 0 it is
lam cost_j times the number of bits set. No constant beyond lam is needed ("big M"), so the range
of the coefficients does not grow. A column of one bit needs no auxiliary, nor does a free one.

A limit, ``problem.max_learners`` = k, becomes P (sum_j z_j + slack - k)^2 with slack bits that
count from 0 to k, and P (1 - z_j) sum_b q_jb takes the place of the term above where
P > lam cost_j. P exceeds what any infeasible state could gain over the empty ensemble, so the
minimum is exact, but it is large: annealers of limited precision prefer ``lam``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost.fixed_point import check_bits, checked_step, grid_step, top_level
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
    """Add lam sum_j cost_j [w_j > 0] and, if there is one, the limit on their number."""
    problem = model.problem
    price = problem.lam * problem.cost
    priced = np.flatnonzero(problem.cost > 0)
    limit = problem.max_learners
    is_limited = limit is not None and limit < len(priced)
    # No state gains more than this over the empty ensemble, whose energy is the offset.
    gain = model.offset - model.lower_bound(top)
    penalty = gain + 1e-3 * (abs(gain) + abs(model.offset)) if is_limited else 0.0
    counted = []
    for j in map(int, priced):
        if len(bits[j]) == 1:
            kept = bits[j][0]
            bqm.add_linear(kept, price[j])
        elif price[j] > 0 or is_limited:
            kept = f"z{j}"
            bqm.add_linear(kept, price[j])
            link = max(penalty, price[j])
            for bit in bits[j]:
                bqm.add_linear(bit, link)
                bqm.add_quadratic(kept, bit, -link)
        else:
            continue
        counted.append((kept, 1.0))
    if is_limited:
        assert limit is not None
        slack = [(f"slack{b}", float(size)) for b, size in enumerate(_slack_sizes(limit))]
        for label, _ in slack:
            bqm.add_variable(label)
        bqm.add_linear_equality_constraint(counted + slack, penalty, -float(limit))


def _slack_sizes(limit: int) -> list[int]:
    """Return sizes whose subsets sum to every number from 0 to the limit and no other."""
    sizes: list[int] = []
    while limit > 0:
        sizes.append(min(1 << len(sizes), limit))
        limit -= sizes[-1]
    return sizes
