"""The whole path to D-Wave's machines, offline: these tests are about plumbing.

A quantum processor is played by the vendor's own ``MockDWaveSampler``; of the Leap samplers
only the cloud client is replaced. What they show is that models arrive, that answers come back
and are decoded, and that solvers work with them. How good real machines are they do not show.
"""

from __future__ import annotations

import io
import re
import warnings
from concurrent.futures import Future
from itertools import product
from pathlib import Path
from unittest.mock import Mock, patch

import dimod
import numpy as np
import pytest
from dwave.cloud.testing.mocks import hybrid_cqm_solver_data, hybrid_nl_solver_data
from dwave.optimization import Model
from dwave.samplers import SimulatedAnnealingSampler
from dwave.system import (
    DWaveCliqueSampler,
    EmbeddingComposite,
    FixedEmbeddingComposite,
    LeapHybridCQMSampler,
    LeapHybridNLSampler,
    LeapHybridSampler,
)
from dwave.system.testing import MockDWaveSampler, MockLeapHybridSolver
from minorminer.busclique import find_clique_embedding
from solver_contract import best_of_all_supports, check, random_problem

from totalqboost import TotalQBoostClassifier, solvers
from totalqboost.datasets import make_twonorm
from totalqboost.solvers import BQMSolver, CQMSolver, NonlinearSolver, plan
from totalqboost.solving import Status

TOPOLOGIES = [("pegasus", [3]), ("zephyr", [2, 4])]
CLIENT = "dwave.system.samplers.leap_hybrid_sampler.Client"


def processor(topology, shape):
    """Return a mock processor that anneals with simulated annealing."""
    return MockDWaveSampler(
        topology_type=topology,
        topology_shape=shape,
        substitute_sampler=SimulatedAnnealingSampler(),
        substitute_kwargs={"num_sweeps": 100},
        parameter_warnings=False,
    )


@pytest.mark.parametrize(("topology", "shape"), TOPOLOGIES)
def test_plumbing_of_a_processor_with_embedding_composite(topology, shape):
    problem = random_problem(1, n=6, m=60, lam=0.01)
    sampler = EmbeddingComposite(processor(topology, shape))
    solver = BQMSolver(sampler, parameters={"num_reads": 20}, n_calls=1, polish="refit")
    solution = solver.solve(problem)
    assert problem.cardinality(check(problem, solution)) > 0
    assert solution.note == "1 call of EmbeddingComposite(MockDWaveSampler)"


@pytest.mark.parametrize(("topology", "shape"), TOPOLOGIES)
def test_plumbing_of_a_processor_with_a_clique_embedding(topology, shape):
    problem = random_problem(2, n=8, m=60, lam=0.005)
    mock = processor(topology, shape)
    solver = BQMSolver(mock, n_calls=2)  # to name the variables: the processor is not asked
    labels = list(solver.build(problem, np.ones(8)).bqm.variables)
    embedding = find_clique_embedding(labels, mock.to_networkx_graph())
    assert len(embedding) == 8
    solver = BQMSolver(FixedEmbeddingComposite(mock, embedding), n_calls=2)
    solution = solver.solve(problem)
    check(problem, solution)
    assert solution.objective <= best_of_all_supports(problem) * 1.02


@pytest.fixture(params=TOPOLOGIES, ids=[name for name, _ in TOPOLOGIES])
def clique_processor(request, monkeypatch):
    """DWaveCliqueSampler with a mock in the place of its processor."""
    monkeypatch.setattr(
        "dwave.system.samplers.clique.DWaveSampler", lambda **config: processor(*request.param)
    )
    return DWaveCliqueSampler


def test_plumbing_of_the_clique_sampler(clique_processor):
    problem = random_problem(2, n=8, m=60, lam=0.005)
    solver = BQMSolver(clique_processor, parameters={"num_reads": 20}, n_calls=2)
    solution = solver.solve(problem)
    check(problem, solution)
    assert solution.objective <= best_of_all_supports(problem) * 1.02
    assert solution.note == "2 calls of DWaveCliqueSampler"


def test_the_solvers_of_the_guide_can_be_made_without_a_connection():
    guide = Path(__file__).parents[2] / "docs" / "annealing.md"
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [block for block in blocks if "DWaveCliqueSampler" in block]
    exec(block, {})


def test_plumbing_of_a_fit_with_the_clique_sampler_and_its_dry_run(clique_processor):
    X, y = make_twonorm(150, seed=0)
    settings = {"parameters": {"num_reads": 20}, "anneal_every": "final", "n_calls": 1}
    clf = TotalQBoostClassifier(0.03, max_rounds=5, exchange=False)
    clf.set_params(solver=BQMSolver(clique_processor(), **settings))
    planned = plan(clf, X, y)
    assert planned.max_calls == 1
    assert planned.qubits["DWaveCliqueSampler"] >= planned.n_variables
    assert "qubits, DWaveCliqueSampler" in str(planned)
    clf.set_params(solver=BQMSolver(clique_processor, **settings))
    assert "DWaveCliqueSampler" not in plan(clf, X, y).qubits  # nobody has called it yet
    assert clf.fit(X, y).solution_.status is Status.SAMPLED


def test_plumbing_of_a_fit_on_a_processor_and_its_dry_run():
    X, y = make_twonorm(150, seed=0)
    solver = BQMSolver(
        EmbeddingComposite(processor("pegasus", [3])), anneal_every="final", n_calls=1
    )
    clf = TotalQBoostClassifier(0.03, solver=solver, max_rounds=5, exchange=False)
    planned = plan(clf, X, y)
    assert planned.n_calls == 1
    assert planned.qubits["MockDWaveSampler"] >= planned.n_variables
    assert clf.fit(X, y).score(X, y) > 0.8


def test_a_seed_is_not_sent_to_a_processor_that_takes_none():
    sampler = EmbeddingComposite(processor("pegasus", [2]))
    with pytest.raises(ValueError, match=r"EmbeddingComposite\(MockDWaveSampler\) has no param"):
        BQMSolver(sampler, parameters={"seed": 1})


# -- Leap: the samplers are the vendor's, the cloud client is not ----------------------------------


def client_of(solver):
    """Return a stand-in for dwave.cloud.Client that knows one solver."""

    class Client:
        @classmethod
        def from_config(cls, **config):
            return cls()

        def get_solver(self, **features):
            return solver

        def close(self):
            pass

    return Client


class MockCQMSolver:
    """Reads the uploaded model back and solves it by enumeration."""

    supported_problem_types = ("cqm",)
    properties = hybrid_cqm_solver_data()["properties"]

    def upload_problem(self, file):
        file.seek(0)
        uploaded = Future()
        uploaded.set_result(dimod.ConstrainedQuadraticModel.from_file(file.read()))
        return uploaded

    def sample_cqm(self, cqm, time_limit, **parameters):
        self.time_limit = time_limit
        return Mock(sampleset=dimod.ExactCQMSolver().sample_cqm(cqm))


class MockNLSolver:
    """Reads the uploaded model back and returns the best of all its states."""

    supported_problem_types = ("nl",)
    properties = hybrid_nl_solver_data()["properties"]

    def upload_nlm(self, model, max_num_states=None):
        with model.to_file(max_num_states=max_num_states) as file:
            self.data = file.read()
        uploaded = Future()
        uploaded.set_result("data-1")
        return uploaded

    def sample_nlm(self, data, time_limit, label=None, **parameters):
        model = Model.from_file(io.BytesIO(self.data))
        decision = next(model.iter_decisions())
        top = int(np.max(decision.upper_bound()))
        states = list(product(range(top + 1), repeat=decision.size()))
        model.states.resize(len(states))
        for i, state in enumerate(states):
            decision.set_state(i, state)
        with model.lock():
            best = min(range(len(states)), key=lambda i: float(model.objective.state(i)))
        model.states.resize(1)
        decision.set_state(0, states[best])
        answer = io.BytesIO()
        model.states.into_file(answer)
        answer.seek(0)
        timing = {"run_time": 1, "charge_time": 1, "qpu_access_time": 0}
        return Mock(answer_data=answer, timing=timing, id="1", label=label, done=lambda: True)


def test_plumbing_of_the_leap_bqm_sampler():
    problem = random_problem(1, n=6, m=60, lam=0.01)
    with patch(CLIENT, client_of(MockLeapHybridSolver())), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = LeapHybridSampler()
        solver = solvers.get(sampler)
        assert type(solver) is BQMSolver
        solution = solver.solve(problem)
    assert problem.cardinality(check(problem, solution)) > 0
    assert "LeapHybrid" in solution.note


def test_plumbing_of_the_leap_cqm_sampler():
    problem = random_problem(1, n=3, m=60, lam=0.01, max_learners=2)
    cloud = MockCQMSolver()
    with patch(CLIENT, client_of(cloud)):
        solver = solvers.get(LeapHybridCQMSampler, n_bits=2)
        assert type(solver) is CQMSolver
        solution = solver.solve(problem)
        check(problem, solution)
        CQMSolver(LeapHybridCQMSampler(), parameters={"time_limit": 7}, n_bits=1).solve(problem)
    assert solution.objective == pytest.approx(best_of_all_supports(problem), abs=1e-3)
    assert cloud.time_limit == 7


def test_plumbing_of_the_leap_nonlinear_sampler():
    problem = random_problem(2, n=4, m=60, lam=0.01)
    with patch(CLIENT, client_of(MockNLSolver())):
        solver = solvers.get(LeapHybridNLSampler, n_bits=2)
        assert type(solver) is NonlinearSolver
        solution = solver.solve(problem)
        check(problem, solution)
        with pytest.raises(ValueError, match="has no parameter 'num_reads'"):
            NonlinearSolver(LeapHybridNLSampler(), parameters={"num_reads": 3})
    assert solution.objective == pytest.approx(best_of_all_supports(problem), abs=1e-3)


def test_plumbing_of_a_fit_with_the_leap_nonlinear_sampler():
    X, y = make_twonorm(150, seed=0)
    with patch(CLIENT, client_of(MockNLSolver())):
        solver = NonlinearSolver(LeapHybridNLSampler, n_bits=2, timeout=60)
        clf = TotalQBoostClassifier(0.05, solver=solver, max_rounds=3, exchange=False)
        assert plan(clf, X, y).n_calls == 3
        clf.fit(X, y)
    assert clf.score(X, y) > 0.7
