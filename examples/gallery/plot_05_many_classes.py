"""
Many classes that share their stumps
====================================

With ten classes there are not ten models. All classes share the stumps; each stump has a weight
for every class and is paid for once.
"""

# %%
# Digits of 8 by 8 pixels. A stump looks at one pixel.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from totalqboost import TotalQBoostClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)

models = {}
for size in (5, 10, 20, 40):
    clf = TotalQBoostClassifier(0, max_learners=size, multiclass="per_class").fit(X_train, y_train)
    models[size] = clf
    print(
        f"{size:2} stumps on {len(clf.ensemble_.used_features):2} pixels, "
        f"error {100 * (1 - clf.score(X_test, y_test)):.1f} %"
    )

# %%
# The model of twenty stumps. A row is a pixel with its threshold, a column is a digit: blue votes
# for the digit if the pixel is bright, red against it.

ensemble = models[20].ensemble_
weights = np.array(ensemble.weights)
where = [
    f"row {h.feature // 8}, column {h.feature % 8} > {h.threshold:g}" for h in ensemble.learners
]
fig, ax = plt.subplots(figsize=(7, 6), layout="constrained")
limit = abs(weights).max()
picture = ax.imshow(weights, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
ax.set_xticks(range(10), [str(label) for label in ensemble.classes])
ax.set_yticks(range(len(where)), where, fontsize=8)
ax.set(xlabel="digit")
fig.colorbar(picture, label="weight")

# %%
# Which pixels does it read at all? The others need not be measured.

fig, axes = plt.subplots(1, 4, figsize=(9, 2.6), layout="constrained")
for ax, (size, clf) in zip(axes, models.items(), strict=True):
    used = np.zeros(64)
    used[list(clf.ensemble_.used_features)] = 1
    ax.imshow(used.reshape(8, 8), cmap="Greys", vmin=0, vmax=1.4)
    ax.set(title=f"{size} stumps", xticks=[], yticks=[])
