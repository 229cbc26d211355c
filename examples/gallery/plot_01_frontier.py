"""
The frontier, and rules for the size
====================================

How many stumps do you need? A frontier trains a good model of every size and measures each one by
cross-validation. Then a rule picks a size, or you do.
"""

# %%
# The data set describes 270 patients, of whom 120 have a heart disease. One call finds all sizes.

import matplotlib.pyplot as plt
import pandas as pd

from totalqboost import datasets, frontier

values, labels, names = datasets.load("heart", return_names=True)
X = pd.DataFrame(values, columns=names)
y = pd.Series(labels).map({-1: "healthy", 1: "sick"})

front = frontier(X, y, cv=5, max_learners=15)
print(front.to_frame()[["n_learners", "valid_error", "valid_log_loss"]].round(3).to_string())

# %%
# The curve falls steeply, then hardly at all. The band is one standard error: differences inside
# it are mostly chance. The ring marks the size that the rule "paired" picks.

fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
front.plot(ax=axes[0])
front.plot(ax=axes[1], metric="log_loss")

# %%
# Four rules come with the library, and a function of your own is a fifth. "min" follows the noise
# and tends to be large. "1se" and "paired" take the smallest model that is not clearly worse.
# "ric" looks at the training rows only.


def half_a_point_each(front):
    """Take one more stump only if it lowers the error by half a percentage point."""
    return min(front, key=lambda point: point.valid_error + 0.005 * point.n_learners).n_learners


for rule in ("min", "1se", "paired", "ric", half_a_point_each):
    point = front.best(rule)
    name = rule if isinstance(rule, str) else rule.__name__
    print(f"{name:18} {point.n_learners:2} stumps, error {100 * point.valid_error:.1f} %")

# %%
# The chosen model is the one that was trained on all rows.

print(front.best().ensemble)
