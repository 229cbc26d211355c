"""
Prices of features
==================

Often it is not the stump that costs something but the measurement. ``feature_costs`` charges for
a column once, however many stumps look at it.
"""

# %%
# A question costs nothing, a walk to the scales little, a blood sample a lot. The unit is the
# price of one stump.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import train_test_split

from totalqboost import TotalQBoostClassifier, datasets

values, labels, names = datasets.load("diabetes", return_names=True)
X = pd.DataFrame(values, columns=names)
y = pd.Series(labels).map({-1: "healthy", 1: "sick"})
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

price = {"glucose": 20, "insulin": 20, "skin_fold": 5, "body_mass_index": 2, "blood_pressure": 2}

# %%
# Multiply all prices by a factor and watch columns leave. The bill is the sum of the prices of
# the columns that the model looks at.

factors = (0, 0.1, 0.3, 1, 3, 10)
bills, errors = [], []
for factor in factors:
    costs = {name: factor * price.get(name, 0) for name in names}
    clf = TotalQBoostClassifier(feature_costs=costs).fit(X_train, y_train)
    looked_at = [names[j] for j in clf.ensemble_.used_features]
    bills.append(sum(price.get(name, 0) for name in looked_at))
    errors.append(100 * (1 - clf.score(X_test, y_test)))
    print(f"× {factor:<4} bill {bills[-1]:2}, error {errors[-1]:.1f} %: {', '.join(looked_at)}")

# %%
# Cheap models and good models are at the two ends. Where to stop is your decision, not the
# library's: it depends on what an error costs.

fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.plot(bills, errors, "o-")
for bill in sorted(set(bills)):
    own = [f"× {factor:g}" for factor, other in zip(factors, bills, strict=True) if other == bill]
    height = errors[bills.index(bill)]
    shift = (4, -16) if bill == min(b for b in bills if b > 20) else (4, 8)
    ax.annotate(", ".join(own), (bill, height), xytext=shift, textcoords="offset points")
ax.margins(0.12, 0.18)
ax.set(xlabel="bill: prices of the columns that are measured", ylabel="test error (%)")
