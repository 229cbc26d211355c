"""
Missing values and categories
=============================

A data frame goes in as it is. Text columns are categories, empty cells are missing. There is no
encoder and no imputer, and the model says where a gap matters.
"""

# %%
# A table of loans, with words for its codes. The savings of some borrowers are unknown.

import matplotlib.pyplot as plt
import pandas as pd

from totalqboost import TotalQBoostClassifier, datasets
from totalqboost.plots import plot_shape

values, labels, names = datasets.load("german", return_names=True)
table = pd.DataFrame(values, columns=names)
account = {11: "overdrawn", 12: "below 200", 13: "200 or more", 14: "none"}
purpose = {40: "new car", 41: "used car", 42: "furniture", 43: "radio", 44: "appliances"}
purpose |= {45: "repairs", 46: "education", 48: "retraining", 49: "business", 410: "other"}
loans = pd.DataFrame(
    {
        "account": table["checking_account"].map(account),
        "purpose": table["purpose"].map(purpose),
        "savings": table["savings"].map({61: 50, 62: 300, 63: 750, 64: 1500}),
        "duration": table["duration"],
        "amount": table["amount"],
    }
)
repaid = pd.Series(labels).map({-1: "repaid", 1: "default"})
print(loans.head(4).to_string())
print(f"{loans['savings'].isna().sum()} of {len(loans)} savings are missing")

# %%
# A stump asks whether a category is one of a set, or whether a number is above a threshold. Where
# a missing value goes is part of the answer.

clf = TotalQBoostClassifier(0, max_learners=7).fit(loans, repaid)
print(clf.ensemble_)

# %%
# The effect of each column is one picture. Bars are categories; the mark beside the curve of the
# savings is what a missing value contributes.

fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for ax, name in zip(axes, ("account", "savings", "duration"), strict=True):
    plot_shape(clf, name, loans, ax=ax)
    ax.set(**{"xlabel" if name == "account" else "ylabel": "log-odds of 'repaid'"})

# %%
# New rows may have categories that training has not seen, and gaps where it had none.

new = pd.DataFrame(
    {"account": ["closed"], "purpose": [None], "savings": [80.0], "duration": [None]}
)
print(clf.explain(new.assign(amount=900.0).astype({"duration": float}).iloc[0]))
