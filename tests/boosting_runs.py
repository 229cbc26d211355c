"""What the tests of boosting share: data, runs of Algorithm 1, oracles and solvers that watch."""

from __future__ import annotations

import numpy as np

from totalqboost import losses
from totalqboost.boosting import Engine, Rounds, Terms, boost
from totalqboost.datasets import make_ringnorm
from totalqboost.dictionaries import Stumps
from totalqboost.dictionaries.stumps import cut_points
from totalqboost.learners import Constant, Stump
from totalqboost.master import MasterProblem, normalised
from totalqboost.solvers import LocalSearch
from totalqboost.solving import MasterSolver, Solution

FAST = LocalSearch(n_perturbations=3, n_warm_perturbations=1)


def ring(n_rows=240, n_features=5, seed=0):
    return make_ringnorm(n_rows, seed=seed, n_features=n_features)


def engine_for(
    X,
    y,
    lam=0.0,
    *,
    solver=FAST,
    loss="exponential",
    dictionary=None,
    oracle=None,
    sample_weight=None,
    nu=1e-6,
    max_learners=None,
    free_intercept=False,
    tol=5e-4,
    n_jobs=None,
    rng=None,
):
    """Return an engine over the stumps of the data, or over another oracle."""
    if oracle is None:
        oracle = (Stumps(max_bins=32) if dictionary is None else dictionary).prepare(X, y, n_jobs)
    weight = normalised(sample_weight, len(y))
    terms = Terms(losses.get(loss), weight, nu, lam, max_learners, free_intercept)
    return Engine(oracle, terms, solver, tol, rng)


def run(
    X,
    y,
    lam=0.0,
    *,
    max_rounds=100,
    plain_rounds=0,
    patience=None,
    exhaust=False,
    on_event=None,
    **settings,
):
    """Run Algorithm 1."""
    rounds = Rounds(max_rounds, plain_rounds, patience, exhaust)
    return boost(engine_for(X, y, lam, **settings), rounds, on_event)


def every_column(X, y, with_constants=True, max_bins=65536):
    """Return all columns y h(x) of the dictionary of stumps, and their learners."""
    learners: list[Stump | Constant] = [
        Stump(f, float(t), polarity)
        for f in range(X.shape[1])
        for t in cut_points(X[:, f], max_bins)
        for polarity in (1, -1)
    ]
    if with_constants:
        learners += [Constant(1), Constant(-1)]
    return learners, np.array([y * h.predict(X) for h in learners])


def weights_over(learners, ensemble):
    """Return the weights of an ensemble per learner of H; an intercept goes to its constant."""
    weight = dict(zip(ensemble.learners, ensemble.weights, strict=True))
    if ensemble.intercept:
        weight[Constant(1 if ensemble.intercept > 0 else -1)] = abs(ensemble.intercept)
    assert weight.keys() <= set(learners)
    return np.array([weight.get(h, 0.0) for h in learners])


def problem_of(X, y, ensemble, **terms):
    """Return the problem over the learners of an ensemble (an intercept is free), its weights."""
    columns = [y * h.predict(X) for h in ensemble.learners]
    weights, cost = list(ensemble.weights), [1.0] * len(columns)
    if ensemble.intercept:
        columns.append(np.sign(ensemble.intercept) * y)
        weights.append(abs(ensemble.intercept))
        cost.append(0.0)
    A = np.array(columns).reshape(len(columns), len(y))
    return MasterProblem(A, cost=np.array(cost), **terms), np.array(weights)


class Watched:
    """An oracle that notes what it offered and what it was told to leave out."""

    def __init__(self, oracle):
        self.oracle, self.y, self.constants = oracle, oracle.y, oracle.constants
        self.n_features, self.is_symmetric = oracle.n_features, oracle.is_symmetric
        self.calls = []

    def told(self, learners, weights):
        self.oracle.told(learners, weights)

    def best(self, u, exclude=(), n=1, curvature=None, nu=0.0, extra=0.0):
        offered = self.oracle.best(u, exclude, n, curvature, nu)
        self.calls.append((set(exclude), [c.learner for c in offered]))
        return offered

    def column(self, learner):
        return self.oracle.column(learner)

    def candidates(self, with_constant, wanted=()):
        return self.oracle.candidates(with_constant, wanted)

    def refined(self, learner, shift):
        return self.oracle.refined(learner, shift)


class InterruptedOracle(Watched):
    """An oracle that is interrupted at its n-th call."""

    def __init__(self, oracle, n):
        super().__init__(oracle)
        self.n = n

    def best(self, u, exclude=(), n=1, curvature=None, nu=0.0, extra=0.0):
        if len(self.calls) + 1 == self.n:
            raise KeyboardInterrupt
        return super().best(u, exclude, n, curvature, nu)


class EmptyHanded(MasterSolver):
    """A solver that keeps nothing."""

    def solve(self, problem, start=None, rng=None):
        w = np.zeros(problem.n_columns)
        return Solution(w, problem.objective(w), n_evaluations=1)


class Refuses(MasterSolver):
    """A solver that must not be asked."""

    def solve(self, problem, start=None, rng=None):
        raise AssertionError("there is nothing to solve")


class Counting(MasterSolver):
    """A solver that notes the problems it was given."""

    def __init__(self, solver=FAST):
        self.solver = solver
        self.calls = []

    def solve(self, problem, start=None, rng=None):
        self.calls.append((problem.n_columns, start))
        return self.solver.solve(problem, start, rng)
