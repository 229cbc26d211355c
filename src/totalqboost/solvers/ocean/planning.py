"""The dry run: what a fit would ask of a sampler, before anything is paid for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from totalqboost.master import MasterProblem
from totalqboost.solvers.compose import Solves, Wrapper
from totalqboost.solvers.local import LocalSearch
from totalqboost.solvers.ocean.calling import SamplerError, can, is_sampler
from totalqboost.solvers.ocean.schedule import Budget, Schedule, most_solves
from totalqboost.solvers.ocean.search import SamplerSolver
from totalqboost.solvers.ocean.solvers import BQMSolver, NonlinearSolver, solver_for
from totalqboost.solving import MasterSolver, Solution

__all__ = ["Plan", "plan"]

INSTALL = 'to see them, pip install "totalqboost[dwave]"'


@dataclass(frozen=True)
class Plan:
    """What a fit would ask of a sampler.

    Attributes
    ----------
    n_rounds, n_solves, n_calls : int
        Rounds of boosting (or sizes searched), master problems for the sampler and calls of it
        in the dry run, if it is called as often as ``n_calls`` lets it for each problem.
    max_calls : int
        No fit makes more: the sampler's answers may lead to other rounds, but not beyond
        ``max_rounds`` and the solver's ``max_calls``.
    n_variables, n_interactions : int
        Of the largest model in the dry run.
    qubits : dict
        Qubits that the largest BQM takes as a clique, by processor; None: it does not fit.
    is_nonlinear : bool
        ``n_interactions`` are the nodes of a nonlinear model.
    needs_package : bool
        The qubits could not be counted for want of a package.

    Examples
    --------
    >>> from dwave.samplers import SimulatedAnnealingSampler
    >>> from totalqboost import TotalQBoostClassifier, datasets
    >>> from totalqboost.solvers import plan
    >>> X, y = datasets.load("flare solar")
    >>> counted = plan(TotalQBoostClassifier(0.01, solver=SimulatedAnnealingSampler), X, y)
    >>> counted.n_solves
    1
    """

    n_rounds: int
    n_solves: int
    n_calls: int
    max_calls: int
    n_variables: int
    n_interactions: int
    qubits: dict[str, int | None] = field(default_factory=dict)
    is_nonlinear: bool = False
    needs_package: bool = False

    def __str__(self) -> str:
        lines = [
            f"rounds of boosting          {self.n_rounds}",
            f"problems for the sampler    {self.n_solves}",
            f"calls of it, expected       {self.n_calls}",
            f"calls of it, at most        {self.max_calls}",
            f"variables, largest model    {self.n_variables}",
            f"{'nodes' if self.is_nonlinear else 'interactions':28s}{self.n_interactions}",
        ]
        for name, count in self.qubits.items():
            lines.append(f"qubits, {name:20s}{'does not fit' if count is None else count}")
        if self.needs_package:
            lines.append(f"qubits                      {INSTALL}")
        return "\n".join(lines)


def plan(estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, solver: Any = None) -> Plan:
    """Fit a copy of the estimator by local search and count what its sampler would be asked.

    The rounds of a real fit may differ by what the sampler finds; ``max_calls`` holds for any.
    No sampler is asked, and no factory is called if the solver is one of ``BQMSolver``,
    ``CQMSolver`` and ``NonlinearSolver`` or a class of samplers: neither a token nor a
    connection is needed then. Only a function given directly must be called, for otherwise
    nobody knows what it makes.

    Parameters
    ----------
    estimator : TotalQBoostClassifier
        Not changed.
    X, y, sample_weight
        As for its ``fit``.
    solver : sampler or solver, optional
        In the place of the estimator's.

    Examples
    --------
    >>> from dwave.samplers import SimulatedAnnealingSampler
    >>> from totalqboost import TotalQBoostClassifier
    >>> from totalqboost.datasets import make_twonorm
    >>> from totalqboost.solvers import BQMSolver, plan
    >>> solver = BQMSolver(SimulatedAnnealingSampler, n_calls=1, anneal_every="final")
    >>> clf = TotalQBoostClassifier(solver=solver, max_rounds=30)
    >>> plan(clf, *make_twonorm(300, seed=0)).max_calls
    1
    """
    settings = estimator.get_params(deep=False)
    chosen = _sampler_solver(settings["solver"] if solver is None else solver, settings["n_bits"])
    dry = DryRun(chosen)
    quiet = {"solver": dry, "verbose": 0, "certify": False}
    copy = type(estimator)(**{**settings, **quiet}).fit(X, y, sample_weight=sample_weight)
    n_variables = n_interactions = 0
    qubits: dict[str, int | None] | None = {}
    if dry.largest is not None:
        model = chosen.build(dry.largest, np.ones(dry.largest.n_columns))
        n_variables, n_interactions = model.n_variables, model.n_interactions
        if isinstance(chosen, BQMSolver):
            qubits = clique_qubits(n_variables, chosen)
    return Plan(
        n_rounds=len(copy.trace_),
        n_solves=dry.n_solves,
        n_calls=dry.n_calls,
        max_calls=_most_calls(chosen, settings),
        n_variables=n_variables,
        n_interactions=n_interactions,
        qubits=qubits or {},
        is_nonlinear=isinstance(chosen, NonlinearSolver),
        needs_package=qubits is None,
    )


def _sampler_solver(given: Any, n_bits: int | None) -> SamplerSolver:
    if isinstance(given, SamplerSolver):
        return given
    if isinstance(given, str | MasterSolver | Solves):
        raise TypeError(
            "solver must be a sampler or one of BQMSolver, CQMSolver and NonlinearSolver to "
            f"plan its calls, got {given!r}"
        )
    try:
        depth = {} if n_bits is None else {"n_bits": n_bits}
        return solver_for(given, **depth, is_dry=True)
    except TypeError as error:
        raise TypeError(f"solver must be a sampler to plan its calls: {error}") from error
    except SamplerError as error:
        raise SamplerError(
            f"{error}; to plan without it say what it makes, e.g. solver=BQMSolver(...)"
        ) from error


def _most_calls(solver: SamplerSolver, settings: dict[str, Any]) -> int:
    """Return how many calls a fit can make with these settings of the estimator."""
    if settings["cardinality_penalty"] == 0 and settings["max_learners"] is None:
        return 0  # the solver is not needed
    # A search over the whole dictionary ends with one problem; Algorithm 1 has one per round.
    n_problems = 1 if settings["exchange"] else settings["max_rounds"]
    n_solves = most_solves(solver.anneal_every, n_problems)
    return int(min(n_solves * solver.n_calls, Budget(solver.max_calls).left))


class DryRun(Wrapper):
    """Keeps to the schedule of a solver, counts what its sampler is asked, and asks it nothing.

    Local search answers instead.
    """

    def __init__(self, solver: SamplerSolver):
        self.solver: SamplerSolver = solver
        self.n_solves = self.n_calls = 0
        self.largest: MasterProblem | None = None

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        rng = np.random.default_rng(0) if rng is None else rng
        return self._count(problem, start, rng, Budget(self.solver.max_calls))

    def session(self, problem: MasterProblem) -> Schedule:
        self.solver.check(problem)
        return Schedule(self, self.solver.anneal_every, self.solver.max_calls, self._count)

    def _count(
        self,
        problem: MasterProblem,
        start: np.ndarray | None,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Solution:
        n_calls = int(min(self.solver.n_calls, budget.left))
        budget.n_spent += n_calls
        self.n_solves += 1
        self.n_calls += n_calls
        if self.largest is None or problem.n_columns > self.largest.n_columns:
            self.largest = problem
        return LocalSearch().solve(problem, start, rng)


def clique_qubits(n_variables: int, solver: SamplerSolver) -> dict[str, int | None] | None:
    """Return the qubits of a clique embedding on ideal processors and on the sampler's own.

    The models are dense, so a clique is what they need. Real processors lack some qubits:
    count on cliques that are a few per cent smaller. None: the packages are not installed.
    """
    try:
        from dwave.graphs import pegasus_graph, zephyr_graph
        from minorminer.busclique import find_clique_embedding
    except ImportError:
        return None
    graphs = {"Pegasus P16": pegasus_graph(16), "Zephyr Z12": zephyr_graph(12)}
    graphs.update(_own_graph(solver.sampler))
    found: dict[str, int | None] = {}
    for name, graph in graphs.items():
        # Through the package's cache on disk: without it minorminer 0.2.22 never returns for
        # some small cliques, e.g. of 5 to 8 variables on Zephyr.
        chains = find_clique_embedding(n_variables, graph)
        fits = len(chains) == n_variables
        found[name] = sum(len(chain) for chain in chains.values()) if fits else None
    return found


def _own_graph(sampler: Any) -> dict[str, Any]:
    """Return the graph of the processor that a live sampler has or wraps, by its name."""
    while is_sampler(sampler):
        name = type(sampler).__name__
        if can(sampler, "target_graph"):  # DWaveCliqueSampler
            return {name: sampler.target_graph}
        if can(sampler, "to_networkx_graph"):
            return {name: sampler.to_networkx_graph()}
        sampler = getattr(sampler, "child", None)
    return {}
