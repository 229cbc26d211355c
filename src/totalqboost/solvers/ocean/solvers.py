"""One solver for each kind of sampler: binary quadratic, constrained and nonlinear models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost.fixed_point import check_depth, grid_step
from totalqboost.master import MasterProblem
from totalqboost.solvers.ocean.bqm import ENCODINGS, BQMModel, build_bqm
from totalqboost.solvers.ocean.calling import create, is_sampler, kind_of, made_by
from totalqboost.solvers.ocean.cqm import CQMModel, build_cqm
from totalqboost.solvers.ocean.nonlinear import NonlinearModel, build_nonlinear, check_loss
from totalqboost.solvers.ocean.search import SamplerSolver

__all__ = ["BQMSolver", "CQMSolver", "NonlinearSolver", "solver_for"]


@dataclass(frozen=True, kw_only=True, eq=False)
class BQMSolver(SamplerSolver):
    """Solve the master problem with any ``dimod.Sampler`` of binary quadratic models.

    Parameters
    ----------
    encoding : {"indicator", "binary"}
        One bit per column, or ``n_bits`` and an auxiliary one; see :func:`build_bqm`. The
        indicator form is the one that fits quantum processors.
    n_bits : int
        Depth of the binary encoding.
    sampler, parameters, n_calls, patience, n_polished, polish, anneal_every, max_calls
        See :class:`SamplerSolver`.

    Examples
    --------
    >>> import numpy as np
    >>> from dwave.samplers import SimulatedAnnealingSampler
    >>> from totalqboost import MasterProblem
    >>> from totalqboost.solvers import BQMSolver
    >>> A = np.where(np.random.default_rng(0).random((12, 200)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-4, lam=0.01)
    >>> solution = BQMSolver(SimulatedAnnealingSampler()).solve(problem)
    >>> problem.cardinality(solution.w), solution.note
    (9, '2 calls of SimulatedAnnealingSampler')
    """

    encoding: str = "indicator"
    n_bits: int = 3

    kind = "bqm"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoding not in ENCODINGS:
            raise ValueError(f"encoding must be one of {ENCODINGS}, got {self.encoding!r}")

    def build(self, problem: MasterProblem, at: np.ndarray, kappa: float = 1.0) -> BQMModel:
        return build_bqm(problem, at, self.encoding, n_bits=self.n_bits, kappa=kappa)


@dataclass(frozen=True, kw_only=True, eq=False)
class CQMSolver(SamplerSolver):
    """Solve the master problem with a sampler of constrained quadratic models.

    Parameters
    ----------
    n_bits : int
        Depth of the integer weights; see :func:`build_cqm`.
    sampler, parameters, n_calls, patience, n_polished, polish, anneal_every, max_calls
        See :class:`SamplerSolver`.
    """

    n_calls: int = 2

    kind = "cqm"

    def build(self, problem: MasterProblem, at: np.ndarray, kappa: float = 1.0) -> CQMModel:
        return build_cqm(problem, at, n_bits=self.n_bits, kappa=kappa)


@dataclass(frozen=True, kw_only=True, eq=False)
class NonlinearSolver(SamplerSolver):
    """Solve the master problem with a sampler of nonlinear models: the exact objective.

    Parameters
    ----------
    n_bits : int
        Depth of the integer weights; see :func:`build_nonlinear`.
    sampler, parameters, n_calls, patience, n_polished, polish, anneal_every, max_calls
        See :class:`SamplerSolver`. The model needs no trust factor; a second call works on a
        grid that fits the weights found by the first.
    """

    n_calls: int = 1

    kind = "nonlinear"

    def check(self, problem: MasterProblem) -> None:
        check_loss(problem)

    def build(self, problem: MasterProblem, at: np.ndarray, kappa: float = 1.0) -> NonlinearModel:
        step = grid_step(at, problem.cost == 0, self.n_bits)
        model = build_nonlinear(problem, n_bits=self.n_bits, step=step)
        model.put(at)  # samplers of nonlinear models start from the states they are given
        return model

    def _sample(self, model: NonlinearModel, rng: np.random.Generator) -> np.ndarray:
        before = model.decode()

        def decode(found: Any) -> np.ndarray:
            weights = model.decode()
            if found is None and np.array_equal(weights, before):
                raise ValueError("it returned nothing and left the states of the model alone")
            return weights

        return self._call(model.model, decode, rng)


def solver_for(sampler: Any, n_bits: int | str = 6, *, is_dry: bool = False) -> SamplerSolver:
    """Return the solver that suits a sampler, or what a factory of samplers makes.

    Samplers of constrained and nonlinear models get integers of ``n_bits`` ("auto" is 6);
    those of binary quadratic models one bit per column. A factory is called, unless
    ``is_dry`` and it is a class, or a ``functools.partial`` of one, that shows its kind.

    Parameters
    ----------
    sampler : sampler or callable
        One, or what returns one.
    n_bits : int or "auto"
        Depth of integer weights.
    is_dry : bool
        Whether a class is not to be called.

    Examples
    --------
    >>> from dwave.samplers import SimulatedAnnealingSampler
    >>> from totalqboost.solvers.ocean import solver_for
    >>> type(solver_for(SimulatedAnnealingSampler())).__name__
    'BQMSolver'
    """
    check_depth(n_bits)
    depth = 6 if n_bits == "auto" else int(n_bits)
    made = made_by(sampler)
    live = made if is_dry and made is not None else create(sampler)
    kind = kind_of(live)
    solver: SamplerSolver
    if kind == "cqm":
        solver = CQMSolver(sampler, n_bits=depth)
    elif kind == "nonlinear":
        solver = NonlinearSolver(sampler, n_bits=depth)
    else:
        solver = BQMSolver(sampler)
    if is_sampler(live):
        solver.connect(live)
    return solver
