"""
The best k stumps of all, with proof
====================================

A fit generates a few columns and chooses among them. ``BranchAndPrice`` looks at all stumps that
the data allow. It is for small data sets, and it shows how good the fast search is.
"""

# %%
# Solar flares: 144 regions of the sun, described by nine features with few values each.

import matplotlib.pyplot as plt
import pandas as pd

from totalqboost import BranchAndPrice, TotalQBoostClassifier, datasets

values, y, names = datasets.load("flare solar", return_names=True)
X = pd.DataFrame(values, columns=names)
exact, fast = [], []
for k in range(1, 6):
    best = BranchAndPrice(loss="logistic", l1_penalty=4 / len(y)).solve(X, y, max_learners=k)
    clf = TotalQBoostClassifier(0, max_learners=k).fit(X, y)
    exact.append(best)
    fast.append(clf.solution_.objective)
    print(
        f"k = {k}: {best.objective:.6f} {best.status} after {best.n_branches} branches; "
        f"search {fast[-1]:.6f}"
    )

# %%
# No ensemble of up to five stumps has a lower objective than this one. It has four: at this price
# of weight no fifth stump helps. That is a statement about the training objective. It says
# nothing about new rows.

print(exact[-1].ensemble)

# %%
# The fast search, which proves nothing, is next to the optimum or on it.

fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
sizes = range(1, 6)
ax.plot(sizes, [best.objective for best in exact], "o-", label="optimum of all stumps, proven")
ax.plot(sizes, fast, "x", markersize=10, label="search of TotalQBoostClassifier")
ax.set(xlabel="number of stumps", ylabel="objective", xticks=list(sizes))
ax.legend(frameon=False)
