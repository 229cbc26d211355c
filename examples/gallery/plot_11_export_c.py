"""
Export to C, and what it costs
==============================

A model becomes one C99 header without dependencies. How many bytes is it on a small processor?
"""

# %%
# Twelve stumps for waveforms of 21 numbers.

import re
import shutil

import matplotlib.pyplot as plt

from totalqboost import TotalQBoostClassifier, datasets, export
from totalqboost.export import targets

X, y = datasets.load("waveform")
clf = TotalQBoostClassifier(0, max_learners=12).fit(X[:1000], y[:1000])
print(f"test error {100 * (1 - clf.score(X[1000:], y[1000:])):.1f} %")

# %%
# The header in its smallest form. The comment at its top says whether labels can differ from the
# library's.

header = export.to_c(clf, name="wave")
print(header[:1400])

# %%
# Four forms of the same model. Integers for inputs save bytes; speed costs some.

rows = X[:1000]
forms = {
    "float, small": {},
    "float, fast": {"optimize": "speed"},
    "int16, small": {"input": "int16", "rows": rows},
    "uint8, small": {"input": "uint8", "rows": rows},
}
headers = {name: export.to_c(clf, name="wave", **options) for name, options in forms.items()}
for name, text in headers.items():
    differ = re.search(r"[^.\n]*rows that were given[^.]*", text)
    print(f"{name:13} {differ[0].strip(' *') if differ else 'takes floats as they are'}")

# %%
# Compilers that are installed here measure the flash. ``apt install gcc-arm-none-eabi gcc-avr`` has
# them on Debian; without one its bars are missing.

found = [target for target in targets.TARGETS if shutil.which(target.compiler)]
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
print(f"{'flash, bytes':13}" + "".join(f"{target.name:>12}" for target in found))
for place, (name, text) in enumerate(headers.items()):
    bytes_ = [targets.measure(text, target, name="wave").flash for target in found]
    print(f"{name:13}" + "".join(f"{size:12}" for size in bytes_))
    ax.bar([k + 0.2 * place for k in range(len(found))], bytes_, 0.2, label=name)
ax.set_xticks([k + 0.3 for k in range(len(found))], [target.name for target in found])
ax.set(ylabel="flash (bytes)")
ax.legend(frameon=False)
