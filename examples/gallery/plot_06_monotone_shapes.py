"""
Only up: monotone constraints and shapes
========================================

A score that falls when the blood sugar rises looks wrong, even if the data say so by chance.
``monotonic_cst`` rules it out, and the shape of each feature shows the effect.
"""

# %%
# One model as the data want it, one in which three columns may only raise the score.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import train_test_split

from totalqboost import TotalQBoostClassifier, datasets
from totalqboost.plots import plot_shape

values, labels, names = datasets.load("diabetes", return_names=True)
X = pd.DataFrame(values, columns=names)
y = pd.Series(labels).map({-1: "healthy", 1: "sick"})
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

up = {"glucose": 1, "body_mass_index": 1, "age": 1}
free = TotalQBoostClassifier(0, max_learners=25).fit(X_train, y_train)
only_up = TotalQBoostClassifier(0, max_learners=25, monotonic_cst=up).fit(X_train, y_train)
for name, clf in [("free", free), ("only up", only_up)]:
    error = 100 * (1 - clf.score(X_test, y_test))
    print(f"{name:8} {clf.n_learners_} stumps, test error {error:.1f} %")

# %%
# The score is the sum of one curve per feature, so these pictures are the whole truth about the
# model. Above: as the data want it. Below: only up.

fig, axes = plt.subplots(2, 3, figsize=(10, 5.4), sharey="row", layout="constrained")
for row, clf in zip(axes, (free, only_up), strict=True):
    for ax, name in zip(row, up, strict=True):
        plot_shape(clf, name, X_train, ax=ax).set_ylabel("")
axes[0, 0].set_ylabel("free: log-odds of 'sick'")
axes[1, 0].set_ylabel("only up: log-odds of 'sick'")
