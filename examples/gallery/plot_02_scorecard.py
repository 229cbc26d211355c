"""
A scorecard to add up by hand
=============================

With ``n_bits`` the weights are small integers. They are trained, not rounded. So a model becomes
a card: one line per rule, whole points, and a table of what a total means.
"""

# %%
# Columns that are rounded before training give thresholds that are easy to read.

import io

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import train_test_split

from totalqboost import TotalQBoostClassifier, datasets, export

values, labels, names = datasets.load("diabetes", return_names=True)
X = pd.DataFrame(values, columns=names).round(1)
y = pd.Series(labels).map({-1: "healthy", 1: "sick"})
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

card = TotalQBoostClassifier(0, max_learners=6, n_bits=4).fit(X_train, y_train)
real = TotalQBoostClassifier(0, max_learners=6).fit(X_train, y_train)
print(export.to_scorecard(card, rows=X_train, title="Diabetes within five years?"))

# %%
# What do the integers cost? Compare with real numbers on rows that neither has seen.

for name, model in [("points up to 7", card), ("real numbers", real)]:
    print(f"{name:15} error {100 * (1 - model.score(X_test, y_test)):.1f} %")

# %%
# The same card as a picture. ``"html"`` is a page to print.

png = export.to_scorecard(card, "png", rows=X_train, title="Diabetes within five years?")
picture = plt.imread(io.BytesIO(png))
fig, ax = plt.subplots(figsize=(8, 8 * picture.shape[0] / picture.shape[1]), layout="constrained")
ax.imshow(picture)
ax.axis("off")
