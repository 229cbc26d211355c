"""
Simulated annealing against local search
========================================

Any sampler of D-Wave's Ocean can choose the columns. Is it better than local search? On one
problem you can see it at once.
"""

# %%
# A master problem of 30 columns. Its optimum is proven first, so that every answer can be judged.

import time

import matplotlib.pyplot as plt
import numpy as np
from dwave.samplers import SimulatedAnnealingSampler

from totalqboost import MasterProblem, TotalQBoostClassifier, datasets
from totalqboost.solvers import BQMSolver, BranchAndBound, LocalSearch

X, y = datasets.load("german")
plain = TotalQBoostClassifier(0, exchange=False, fit_intercept=False, max_rounds=30).fit(X, y)
A = np.array([y * learner.predict(X) for learner in plain.result_.learners])
problem = MasterProblem(A, nu=4 / len(y), lam=0.004, loss="logistic")
optimum = BranchAndBound().solve(problem)
print(f"optimum {optimum.objective:.6f}, {optimum.status}")

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
LocalSearch().solve(problem)  # the first call compiles
gaps = {}
for name, solver in solvers.items():
    began = time.perf_counter()
    answers = [solver.solve(problem, rng=np.random.default_rng(seed)) for seed in range(3)]
    seconds = (time.perf_counter() - began) / 3
    gaps[name] = [100 * (answer.objective / optimum.objective - 1) for answer in answers]
    print(f"{name:27} {np.mean(gaps[name]):7.4f} % above the optimum, {seconds:.2f} s")

# %%
# One problem proves little; :doc:`/annealing` has the same comparison on many. But the pattern is
# typical: annealing proposes well, and the moves of local search finish the work.

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
names = list(gaps)[::-1]
ax.barh(names, [np.mean(gaps[name]) for name in names])
ax.set(xlabel="above the proven optimum (%), mean of three seeds")
