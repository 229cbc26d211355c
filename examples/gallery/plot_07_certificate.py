"""
A certificate: the gap closes
=============================

Is there a better choice of columns than the one that was found? Branch and bound can prove that
there is none. This picture shows the proof at work.
"""

# %%
# The problem: the first 30 columns of plain boosting on a data set, and a price for each column
# that is kept.

import matplotlib.pyplot as plt
import numpy as np

from totalqboost import MasterProblem, TotalQBoostClassifier, datasets
from totalqboost.solvers import BranchAndBound, LocalSearch

X, y = datasets.load("diabetes")
plain = TotalQBoostClassifier(0, exchange=False, fit_intercept=False, max_rounds=30).fit(X, y)
A = np.array([y * learner.predict(X) for learner in plain.result_.learners])
problem = MasterProblem(A, nu=4 / len(y), lam=0.004, loss="logistic")
print(f"{A.shape[0]} columns, {A.shape[1]} rows: 2^{A.shape[0]} choices")

# %%
# Local search answers at once. The exact solver finds the same answer or a better one, and raises
# a lower bound until nothing is left between the two.

found = LocalSearch().solve(problem)
steps = []
proven = BranchAndBound(on_progress=steps.append).solve(problem)
print(f"local search   {found.objective:.6f}, {problem.cardinality(found.w)} columns")
print(
    f"branch & bound {proven.objective:.6f}, {problem.cardinality(proven.w)} columns, "
    f"{proven.status}, {proven.n_evaluations} nodes"
)
print(f"local search is {100 * (found.objective / proven.objective - 1):.4f} % above the optimum")

# %%
# The objective moves early or not at all. What takes long is the proof, not the answer: an open
# gap does not mean that the answer is bad.

nodes = [step.n_nodes for step in steps]
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.step(nodes, [step.objective for step in steps], where="post", label="best objective")
ax.step(nodes, [step.bound for step in steps], where="post", label="lower bound")
ax.fill_between(
    nodes,
    [step.bound for step in steps],
    [step.objective for step in steps],
    step="post",
    alpha=0.15,
    label="gap",
)
ax.set(xlabel="nodes of the tree", ylabel="objective")
ax.legend(frameon=False)
