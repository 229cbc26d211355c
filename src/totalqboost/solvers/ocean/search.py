"""Samplers as solvers of the master problem: they propose, the true objective decides.

Order of calls in ``solve``: build a model at the present point, sample it, score every read
with ``MasterProblem.objective``, polish the best few, move the point to the best of all, adapt
the trust factor, repeat.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from totalqboost.fixed_point import check_bits
from totalqboost.interruption import unwrapped_interruption
from totalqboost.master import MasterProblem
from totalqboost.notices import warn
from totalqboost.parameters import check_integer
from totalqboost.refit import refit
from totalqboost.solvers.descent import IMPROVEMENT, Descent
from totalqboost.solvers.local import LocalSearch
from totalqboost.solvers.ocean.calling import (
    SamplerError,
    WrongSamplerError,
    call,
    can,
    check_parameters,
    create,
    is_sampler,
    kind_of,
    made_by,
    name_of,
)
from totalqboost.solvers.ocean.schedule import Budget, Schedule
from totalqboost.solvers.ocean.second_order import checked_weights
from totalqboost.solving import Interrupted, MasterSolver, Solution, Status, better_of

__all__ = ["SamplerSolver", "relaxed"]

MAX_KAPPA = 64.0
SOLVERS = {"bqm": "BQMSolver", "cqm": "CQMSolver", "nonlinear": "NonlinearSolver"}


@dataclass(frozen=True, kw_only=True, eq=False)
class SamplerSolver(MasterSolver):
    """What the three solvers share.

    Parameters
    ----------
    sampler : sampler or callable
        A sampler, or a function or class that returns one. A factory is called at the first
        solve and not copied along: estimators clone and pickle with it.
    parameters : mapping, optional
        For the sampler, e.g. ``{"num_reads": 100}``. One that it does not know is an error.
        If it knows them and they are not given: num_reads 50, num_sweeps 200, and a seed from
        the solver's generator.
    n_calls : int
        Largest number of calls of the sampler in one solve.
    patience : int
        Stop after this many calls without an improvement.
    n_polished : int
        How many of the best reads of a call are polished.
    polish : {"descend", "refit"}
        "refit": continuous weights on the read's support. "descend": the moves of local
        search after that.
    anneal_every : int or "final"
        In a fit, call the sampler for every k-th problem and for the last one ("final": only
        for that); local search solves the others. Problems are the rounds of Algorithm 1
        (``exchange=False``) or the sizes of a frontier; a search over the whole dictionary has
        one. A ``solve`` outside of a fit always calls the sampler.
    max_calls : int, optional
        Hard limit on the calls of one fit, those that fail included. When they are used up
        local search goes on: status "fell back", with the reason in the note.
    fallback : "local", optional
        What to do if the sampler fails: by default raise :class:`SamplerError`; "local" warns,
        solves by local search and says so in status and note.
    timeout : float, optional
        Seconds to wait for a factory and for each answer, a guard against a service that
        hangs.
    n_bits : int
        Depth of fixed-point weights in the model.
    connection : tuple
        What a factory has made; leave it alone.
    """

    sampler: Any = field(kw_only=False)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    n_calls: int = 4
    patience: int = 2
    n_polished: int = 8
    polish: str = "descend"
    anneal_every: int | str = 1
    max_calls: int | None = None
    fallback: str | None = None
    timeout: float | None = None
    n_bits: int = 6
    # The factory and what it made. A field, so that ``replace`` takes it along.
    connection: tuple[Any, Any] = field(default=(None, None), repr=False)

    kind = ""  # of the subclass: "bqm", "cqm" or "nonlinear"

    def __post_init__(self) -> None:
        for name in ("n_calls", "patience", "n_polished"):
            check_integer(name, getattr(self, name), 1)
        if not (isinstance(self.anneal_every, str) and self.anneal_every == "final"):
            check_integer("anneal_every", self.anneal_every, 1, " or 'final'")
        if self.max_calls is not None:
            check_integer("max_calls", self.max_calls, 1, " or None")
        if self.polish not in ("descend", "refit"):
            raise ValueError(f"polish must be 'descend' or 'refit', got {self.polish!r}")
        if self.fallback not in (None, "local"):
            raise ValueError(f"fallback must be None or 'local', got {self.fallback!r}")
        check_timeout(self.timeout)
        check_bits(self.n_bits)
        if not isinstance(self.parameters, Mapping):
            raise ValueError(
                "parameters must be a mapping such as {'num_reads': 100}, "
                f"got {self.parameters!r}"
            )
        self._check_sampler()

    def _check_sampler(self) -> None:
        """Check what can be known without a call: a function says only then what it makes."""
        known = self.sampler if is_sampler(self.sampler) else made_by(self.sampler)
        if known is not None:
            self._check_kind(known)
            check_parameters(known, self.kind, self.parameters)
        elif not callable(self.sampler):
            create(self.sampler)  # says what is wrong with it

    def _check_kind(self, sampler: Any) -> None:
        kind = str(kind_of(sampler))
        # A sampler of nonlinear models need not estimate times: it may pass for a BQM one,
        # but not for a dimod.Sampler, which takes Ising models too.
        may_be_nonlinear = kind == "bqm" and not can(sampler, "sample_ising")
        if kind != self.kind and not (self.kind == "nonlinear" and may_be_nonlinear):
            raise WrongSamplerError(
                f"{type(self).__name__} needs a sampler of {self.kind} models, "
                f"got {name_of(sampler)}: use {SOLVERS[kind]}"
            )

    # -- settings are shared, live samplers stay where they are -------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "connection": (None, None)}

    def __sklearn_clone__(self) -> SamplerSolver:
        return self  # nothing here is changed by a fit

    @property
    def live(self) -> Any:
        """The sampler; a factory is called once."""
        factory, sampler = self.connection
        if sampler is None or factory is not self.sampler:
            sampler = create(self.sampler, self.timeout)
            self._check_kind(sampler)
            self.connect(sampler)
        return sampler

    def connect(self, sampler: Any) -> None:
        """Keep the sampler that the factory made: connections are slow, one is enough."""
        object.__setattr__(self, "connection", (self.sampler, sampler))

    # -- solving ------------------------------------------------------------------------------

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        """Return the best weights found; never worse than ``start`` or the empty ensemble."""
        rng = np.random.default_rng(0) if rng is None else rng
        return self.anneal(problem, start, rng, Budget(self.max_calls))

    def session(self, problem: MasterProblem) -> Schedule:
        """Return the solver of one fit, which keeps to ``anneal_every`` and ``max_calls``."""
        self.check(problem)
        return Schedule(self, self.anneal_every, self.max_calls, self.anneal)

    def check(self, problem: MasterProblem) -> None:
        """Raise ValueError if problems like this one have no model."""

    def anneal(
        self,
        problem: MasterProblem,
        start: np.ndarray | None,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Solution:
        """Return the answer of the sampler, within the budget of calls."""
        self.check(problem)
        start = None if start is None else checked_weights("start", start, problem.n_columns)
        try:
            return self._search(problem, start, rng, budget)
        except SamplerError as error:
            if self.fallback is None or isinstance(error, WrongSamplerError):
                raise
            warn(f"{error}; local search instead", RuntimeWarning)
            solution = LocalSearch().solve(problem, start, rng)
            note = f"local search, because {error}"
            return replace(solution, status=Status.FELL_BACK, note=note)

    def _search(
        self,
        problem: MasterProblem,
        start: np.ndarray | None,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Solution:
        empty = np.zeros(problem.n_columns)
        best = Solution(empty, np.inf, status=Status.SAMPLED)
        for w in [empty] if start is None else [empty, start]:
            best = better_of(problem, best, w)
        if problem.n_columns == 0:
            return replace(best, note="no columns")
        merged = problem.merged() if problem.n_rows > 500 else problem
        descent = Descent(merged, LocalSearch())
        n_before = budget.n_spent
        sampler = self.live
        try:
            with unwrapped_interruption():
                for w in self._proposals(descent, start, rng, budget):
                    best = better_of(problem, best, w)
        except KeyboardInterrupt:
            work = descent.n_evaluations
            best = replace(best, n_evaluations=work, status=Status.INTERRUPTED)
            raise Interrupted(best) from None
        n_calls = budget.n_spent - n_before
        note = f"{n_calls} call{'' if n_calls == 1 else 's'} of {name_of(sampler)}"
        return replace(best, n_evaluations=descent.n_evaluations, note=note)

    def _proposals(
        self,
        descent: Descent,
        start: np.ndarray | None,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Iterator[np.ndarray]:
        """Yield the best point after every call, and at the end to full precision."""
        problem = descent.problem
        best, value = self._polish(descent, descent.full() if start is None else start)
        at = relaxed(problem) if start is None else best
        kappa, n_stale = 1.0, 0
        for _ in range(int(min(self.n_calls, budget.left))):
            if n_stale == self.patience or descent.remaining <= 0:
                break
            yield best
            model = self.build(problem, at, kappa)
            n_stale += 1
            budget.n_spent += 1
            reads = np.unique(self._sample(model, rng), axis=0)
            scores = np.array([problem.objective(w) for w in reads])
            kappa = _trust(model, reads, scores, kappa)
            for w in _best_first(problem, reads, scores)[: self.n_polished]:
                trial, trial_value = self._polish(descent, w)
                if trial_value < value - IMPROVEMENT:
                    best, value, n_stale = trial, trial_value, 0
            at = best
        yield descent.polish(best)

    def _polish(self, descent: Descent, w: np.ndarray) -> tuple[np.ndarray, float]:
        if self.polish == "descend":
            return descent.descend(w)
        w = descent.cut(w)
        return descent.refit(descent.support(w), w)

    # -- of the subclass ----------------------------------------------------------------------

    def build(self, problem: MasterProblem, at: np.ndarray, kappa: float = 1.0) -> Any:
        """Return the model that the sampler is given."""
        raise NotImplementedError

    def _sample(self, model: Any, rng: np.random.Generator) -> np.ndarray:
        """Return the weights of every read."""
        return self._call(getattr(model, self.kind), model.decode, rng)

    def _call(self, model: Any, decode: Any, rng: np.random.Generator) -> np.ndarray:
        return call(self.live, self.kind, model, self.parameters, rng, self.timeout, decode)


def relaxed(problem: MasterProblem) -> np.ndarray:
    """Return the optimum with lam w_j in the place of lam [w_j > 0]: a point to begin at.

    The l1 optimum knows nothing of lam. Where data are separable its weights are so large
    that the second-order model there holds for no smaller ensemble. Of fees it knows the least:
    one column that is too dear must not empty the point.
    """
    fees = problem.fee[problem.cost > 0]
    price = problem.lam + (float(fees.min()) if len(fees) else 0.0)
    surrogate = problem.changed(nu=problem.nu + price)
    return refit(surrogate, np.arange(problem.n_columns), tol=1e-6)


def _best_first(problem: MasterProblem, reads: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the reads by their objective, those beyond a limit last."""
    is_beyond = np.array([not problem.is_feasible(w) for w in reads])
    return reads[np.lexsort((scores, is_beyond))]


def _trust(model: Any, reads: np.ndarray, scores: np.ndarray, kappa: float) -> float:
    """Return the next trust factor: four times this one where the model promised too much.

    Compares what the read that the model likes best was to gain over the point with what it
    did gain. An exact model keeps its word.
    """
    expected = model.second_order
    if expected is None:
        return kappa
    values = np.array([expected.value(w) for w in reads])
    k = int(np.argmin(values))
    promised = expected.value(expected.at) - values[k]
    gained = expected.problem.objective(expected.at) - scores[k]
    if promised <= 0 or gained >= 0.75 * promised:
        return max(1.0, kappa / 2)
    return min(MAX_KAPPA, 4 * kappa) if gained < 0.25 * promised else kappa


def check_timeout(timeout: Any) -> None:
    is_number = isinstance(timeout, Real) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and 0 < timeout <= threading.TIMEOUT_MAX):
        raise ValueError(
            f"timeout must be a number of seconds > 0 and <= {threading.TIMEOUT_MAX:.0f}, "
            f"or None to wait as long as it takes, got {timeout!r}"
        )
