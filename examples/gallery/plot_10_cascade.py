"""
A soft cascade with a promised recall
=====================================

A detector looks for something rare. It must find nearly all of it and dismiss the rest at little
cost. A soft cascade asks one stump after the other and rejects most rows after the first few.
"""

# %%
# One row in twenty is an event. Thresholds are set on events that training has not seen, so that
# the recall holds for new ones, with a confidence of 95 %.

from totalqboost import CascadeClassifier, TotalQBoostClassifier
from totalqboost.datasets import make_rare_event
from totalqboost.plots import CascadeDisplay

X, y = make_rare_event(20_000, positive_rate=0.05, seed=0, n_features=12)
base = TotalQBoostClassifier(max_learners=10, class_weight="balanced")
detector = CascadeClassifier(base, min_recall=0.95, confidence=0.95).fit(X, y)
print(f"{detector.n_positives_} held-out events, of which {detector.n_missed_} may be missed")

# %%
# Fresh rows check the promise. The bounds are exact ones (Clopper and Pearson).

X_new, y_new = make_rare_event(20_000, positive_rate=0.05, seed=1, n_features=12)
print(detector.certify(X_new, y_new))

# %%
# On the left: misses against false alarms for every threshold, and where the detector stands. On
# the right: what share of the rows is still there after each stump. Few negatives get far.

display = CascadeDisplay.from_estimator(detector, X_new, y_new)
display.figure_.set_size_inches(10, 4)
