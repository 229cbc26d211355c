"""
Rows on the workers of a cluster
================================

Dask arrays and data frames go into the same estimators. Rows stay where they are, and the ensemble
equals the one of a fit in memory.
"""

# %%
# A cluster of two workers on this machine, here in threads; ``Client("tcp://...")`` connects to any
# other one. Without a client, one worker is started for the time of a fit.

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

from totalqboost import TotalQBoostClassifier
from totalqboost.datasets import make_waveform

cluster = LocalCluster(2, threads_per_worker=1, processes=False, dashboard_address=None)
client = Client(cluster)

# %%
# A table in four parts.

X, y = make_waveform(24_000, seed=0)
X = X.round(1)  # few values: the same cuts in memory and on workers
parts = da.from_array(X, chunks=(6_000, 21)), da.from_array(y, chunks=6_000)

# %%
# The same call, twice.

here = TotalQBoostClassifier(0, max_learners=6).fit(X, y)
there = TotalQBoostClassifier(0, max_learners=6).fit(*parts)
print(there.ensemble_)
print("the same weak classifiers:", here.ensemble_.learners == there.ensemble_.learners)

# %%
# Predictions stay lazy until somebody asks.

scores = there.decision_function(parts[0])
print(scores)
values = scores.compute()

fig, ax = plt.subplots(figsize=(6, 3))
bins = np.linspace(values.min(), values.max(), 40)
for label in np.unique(y):
    ax.hist(values[y == label], bins, alpha=0.6, label=f"class {label}")
ax.set(xlabel="score", ylabel="rows", title="Scores of 24,000 rows in four parts")
ax.legend(frameon=False)
plt.show()

client.close()
cluster.close()
