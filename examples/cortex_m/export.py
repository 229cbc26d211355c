"""Write model.h, and rows.h: rows for the board with the labels that they get on the desk."""

import sys

import numpy as np

from totalqboost import Ensemble, export

model = Ensemble.load(sys.argv[1])
rows = np.loadtxt(sys.argv[2], delimiter=",", ndmin=2).astype(np.float32)
numbers = [model.classes.index(label) for label in model.predict(rows).tolist()]

with open("model.h", "w", encoding="utf-8") as file:
    file.write(export.to_c(model, name="model", test_rows=rows))
with open("rows.h", "w", encoding="utf-8") as file:
    file.write(f"#define N_ROWS {len(rows)}\n")
    file.write("static const float rows[N_ROWS][MODEL_N_FEATURES] = {\n")
    for row in rows.tolist():
        file.write("    {" + ", ".join(f"{value!r}F" for value in row) + "},\n")
    file.write("};\n")
    file.write(f"static const int expected[N_ROWS] = {{{', '.join(map(str, numbers))}}};\n")
