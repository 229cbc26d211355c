"""Train eight stumps on the waveforms; keep ten rows that they have not seen."""

import numpy as np

from totalqboost import TotalQBoostClassifier, datasets

X, y = datasets.load("waveform")
model = TotalQBoostClassifier(max_learners=8).fit(X[:2000], y[:2000])
model.ensemble_.save("model.json")
np.savetxt("rows.csv", X[2000:2010], delimiter=",")
print(model.ensemble_)
