"""Write model.h, and rows.h: rows for the board with the labels that they get on the desk."""

import csv
import sys

import numpy as np

from totalqboost import Ensemble, export


def number(text):
    """Return the number that a cell holds, NaN if it holds none."""
    try:
        return float(text)
    except ValueError:
        return np.nan


def read(path, names):
    """Return the rows of a CSV file; with a line of names, the columns of the model."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = [line for line in csv.reader(file) if line]
    columns = range(len(names))
    if lines and not any(np.isfinite(number(cell)) for cell in lines[0]):
        header = lines.pop(0)
        gone = [name for name in names if name not in header]
        if gone:
            raise ValueError(f"{path} has no column {gone[0]!r}")
        columns = [header.index(name) for name in names]
    if not lines or any(len(line) <= max(columns, default=0) for line in lines):
        raise ValueError(f"{path} must have rows of {len(names)} numbers, with commas between")
    rows = np.array([[number(line[j]) for j in columns] for line in lines], dtype=np.float32)
    if not np.isfinite(rows).all():
        i, j = np.argwhere(~np.isfinite(rows))[0]
        raise ValueError(f"{path}: {lines[i][columns[j]]!r} in row {i + 1} is no finite number")
    return rows


def main(model_path, rows_path):
    """Read both files, write both headers."""
    model = export.exportable(Ensemble.load(model_path))
    rows = read(rows_path, model.feature_names)
    numbers = [model.classes.index(label) for label in model.predict(rows).tolist()]
    header = export.to_c(model, name="model", test_rows=rows)
    with open("rows.h", "w", encoding="utf-8") as file:
        file.write(f"#define N_ROWS {len(rows)}\n")
        file.write("static const float rows[N_ROWS][MODEL_N_FEATURES] = {\n")
        for row in rows.tolist():
            file.write("    {" + ", ".join(f"{value!r}F" for value in row) + "},\n")
        file.write("};\n")
        file.write(f"static const int expected[N_ROWS] = {{{', '.join(map(str, numbers))}}};\n")
    with open("model.h", "w", encoding="utf-8") as file:
        file.write(header)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, ValueError, TypeError) as error:
        sys.exit(f"error: {error}")
