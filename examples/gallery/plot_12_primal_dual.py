"""
Primal, dual and the gap: Fig. 2 of the paper
=============================================

The dual problem does not see the price of columns. So the gap between objective and dual bound
cannot close; it is at least λ times the number of columns. The paper draws this by hand, here it
is drawn from the trace of a fit.
"""

# %%
# Algorithm 1 round by round, without the search over the whole dictionary.

import matplotlib.pyplot as plt

from totalqboost import TotalQBoostClassifier, datasets
from totalqboost.plots import plot_trace

X, y = datasets.load("heart")
fig, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
for ax, price in zip(axes, (0.0, 0.02), strict=True):
    clf = TotalQBoostClassifier(price, exchange=False, max_rounds=25, patience=None).fit(X, y)
    plot_trace(clf, ax=ax)
    ax.set_title(f"λ = {price:g}: {clf.n_learners_} stumps kept")
    last = clf.trace_[-1]
    print(
        f"λ = {price:g}: objective {last.objective:.4f}, dual bound {last.dual_bound:.4f}, "
        f"gap {last.objective - last.dual_bound:.4f}, λ card(w) {price * clf.n_learners_:.4f}"
    )

# %%
# On the left there is no price: column generation closes the gap. On the right the gap stays open
# above the dotted line. What lies between the gap and that line is the price of leaving columns
# out: the kept ones are no longer the best under the l1 penalty alone.
# :doc:`/algorithm` says where the bound comes from, :doc:`/theory` why it does not see the price.
