"""
Simulated annealing against local search
========================================

Any sampler of D-Wave's Ocean can choose the columns. Is it better than local search? On a
few problems you can see it at once.
"""

# %%
# Six master problems of 30 columns each: three data sets, two prices. Their optima are proven
# first, so that every answer can be judged.

import time

import matplotlib.pyplot as plt
import numpy as np
from dwave.samplers import SimulatedAnnealingSampler

from totalqboost import MasterProblem, TotalQBoostClassifier, datasets
from totalqboost.solvers import BQMSolver, BranchAndBound, LocalSearch


def problems():
    for name in ("diabetes", "german", "heart"):
        X, y = datasets.load(name)
        plain = TotalQBoostClassifier(0, exchange=False, fit_intercept=False, max_rounds=30)
        learners = plain.fit(X, y).result_.learners
        A = np.array([y * learner.predict(X) for learner in learners])
        for price in (0.003, 0.008):
            yield MasterProblem(A, nu=4 / len(y), lam=price, loss="logistic")


cases = [(problem, BranchAndBound(max_nodes=20_000).solve(problem)) for problem in problems()]
for problem, optimum in cases:
    print(
        f"{optimum.objective:.6f} with {problem.cardinality(optimum.w)} columns: {optimum.status}"
    )

# %%
# Five ways to answer. "refit" takes what the sampler says and only weighs it anew; "polish" also
# gives its best reads the moves of local search. One bit per column is the form of QBoost and of
# a quantum processor, three bits are finer.


def annealing(n_bits, polish):
    encoding = "indicator" if n_bits == 1 else "binary"
    return BQMSolver(SimulatedAnnealingSampler, encoding=encoding, n_bits=n_bits, polish=polish)


solvers = {
    "local search": LocalSearch(),
    "annealing, 1 bit, refit": annealing(1, "refit"),
    "annealing, 3 bits, refit": annealing(3, "refit"),
    "annealing, 1 bit, polish": annealing(1, "descend"),
    "annealing, 3 bits, polish": annealing(3, "descend"),
}
gaps = {}
for name, solver in solvers.items():
    began = time.perf_counter()
    found = [solver.solve(problem, rng=np.random.default_rng(0)) for problem, _ in cases]
    seconds = (time.perf_counter() - began) / len(cases)
    pairs = zip(found, (optimum for _, optimum in cases), strict=True)
    gaps[name] = [100 * (answer.objective / optimum.objective - 1) for answer, optimum in pairs]
    print(f"{name:27} {np.mean(gaps[name]):7.4f} % above the optimum, {seconds:.2f} s")

# %%
# Six problems prove little; :doc:`/annealing` has the same comparison on many. But the pattern is
# the same: annealing proposes well, and the moves of local search finish the work.

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
names = list(gaps)[::-1]
ax.barh(names, [np.mean(gaps[name]) for name in names])
ax.set(xlabel="above the proven optimum (%), mean of six problems")
