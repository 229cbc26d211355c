"""The dry run: what a fit would ask of a sampler, before anything is paid for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from totalqboost.master import MasterProblem, Solution
from totalqboost.solvers.local import LocalSearch
from totalqboost.solvers.ocean.calling import is_sampler
from totalqboost.solvers.ocean.search import SamplerSolver
from totalqboost.solvers.ocean.solvers import BQMSolver, solver_for

__all__ = ["Plan", "plan"]


@dataclass(frozen=True)
class Plan:
    """What a fit would ask of a sampler.

    Attributes
    ----------
    n_rounds : int
        Rounds of boosting.
    n_solves : int
        Master problems for the sampler.
    n_calls : int
        Calls of the sampler, at most: ``n_calls`` of the solver for each problem.
    n_variables, n_interactions : int
        Of the largest model (nodes instead of interactions for a nonlinear model).
    qubits : dict
        Qubits that the largest BQM takes as a clique, by processor; None: it does not fit.
    """

    n_rounds: int
    n_solves: int
    n_calls: int
    n_variables: int
    n_interactions: int
    qubits: dict[str, int | None] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"rounds of boosting          {self.n_rounds}",
            f"problems for the sampler    {self.n_solves}",
            f"calls of it, at most        {self.n_calls}",
            f"variables, largest model    {self.n_variables}",
            f"interactions                {self.n_interactions}",
        ]
        for name, count in self.qubits.items():
            lines.append(f"qubits, {name:20s}{'does not fit' if count is None else count}")
        return "\n".join(lines)


def plan(estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, solver: Any = None) -> Plan:
    """Fit a copy of the estimator by local search and count what its sampler would be asked.

    The rounds of a real fit may differ by what the sampler finds. A factory is not called
    and a sampler not asked, so neither a token nor a connection is needed if ``solver`` is
    one of ``BQMSolver``, ``CQMSolver`` and ``NonlinearSolver``.

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
    >>> plan(clf, *make_twonorm(300, seed=0)).n_calls
    1
    """
    settings = estimator.get_params(deep=False)
    chosen = settings["solver"] if solver is None else solver
    if not isinstance(chosen, SamplerSolver):
        chosen = solver_for(chosen, settings.get("n_bits", 6))
    recorder = _Recorder(chosen)
    copy = type(estimator)(**{**settings, "solver": recorder})
    copy.fit(X, y, sample_weight=sample_weight)
    n_variables = n_interactions = 0
    qubits: dict[str, int | None] = {}
    if recorder.largest is not None:
        largest = recorder.largest
        model = chosen.build(largest, np.ones(largest.n_columns))
        n_variables, n_interactions = model.n_variables, model.n_interactions
        if isinstance(chosen, BQMSolver):
            qubits = clique_qubits(n_variables, chosen)
    return Plan(
        n_rounds=len(copy.trace_),
        n_solves=recorder.n_solves,
        n_calls=recorder.n_solves * chosen.n_calls,
        n_variables=n_variables,
        n_interactions=n_interactions,
        qubits=qubits,
    )


class _Recorder:
    """Local search that notes what the sampler would have been given."""

    def __init__(self, solver: SamplerSolver):
        self.solver = solver
        self.n_solves = 0
        self.largest: MasterProblem | None = None

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        if self.solver.calls_at(problem):
            self._note(problem)
        return LocalSearch().solve(problem, start, rng)

    def finish(self, problem: MasterProblem, start: np.ndarray, rng: np.random.Generator) -> None:
        if self.solver.anneal_every != 1:
            self._note(problem)

    def _note(self, problem: MasterProblem) -> None:
        self.n_solves += 1
        if self.largest is None or problem.n_columns > self.largest.n_columns:
            self.largest = problem


def clique_qubits(n_variables: int, solver: SamplerSolver) -> dict[str, int | None]:
    """Return the qubits of a clique embedding on ideal processors and on the sampler's own.

    The models are dense, so a clique is what they need. Real processors lack some qubits:
    count on cliques that are a few per cent smaller.
    """
    try:
        from dwave.graphs import pegasus_graph, zephyr_graph
        from minorminer.busclique import find_clique_embedding
    except ImportError:
        return {}
    graphs = {"Pegasus P16": pegasus_graph(16), "Zephyr Z12": zephyr_graph(12)}
    sampler = solver.sampler if is_sampler(solver.sampler) else None
    while sampler is not None and not hasattr(sampler, "to_networkx_graph"):
        sampler = getattr(sampler, "child", None) if hasattr(sampler, "children") else None
    if sampler is not None:
        graphs[type(sampler).__name__] = sampler.to_networkx_graph()
    found: dict[str, int | None] = {}
    for name, graph in graphs.items():
        # Through the package's cache on disk: without it minorminer 0.2.22 never returns for
        # some small cliques, e.g. of 5 to 8 variables on Zephyr.
        chains = find_clique_embedding(n_variables, graph)
        fits = len(chains) == n_variables
        found[name] = sum(len(chain) for chain in chains.values()) if fits else None
    return found
