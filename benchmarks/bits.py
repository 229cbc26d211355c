"""Integers that were trained against real weights that were rounded, at 8, 6, 4, 3 and 2 bits.

Ten two-class data sets of generalization.py with its splits, at most 500 training rows: the
logistic loss at the default l1 price, 10 and 20 stumps, and the paper's exponential loss at 1e-6,
20 stumps. Real weights are rounded to the scale at which the largest is the largest integer, the
intercept with them: what an export would do. Trained are the integers of ``n_bits``, on the same
stumps. In the first split the exact solver looks for better integers of the same stumps and the
same scale, and either proves that there are none or stops after --nodes nodes.

Every (set, split, study) is a line of runs/bits/lines.jsonl as soon as it is done, and is not
computed again: delete the file to measure anew.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before the first import of NumPy
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from common import parse_arguments, save, say, table
from generalization import Split, make_split, measures

from totalqboost import TotalQBoostClassifier
from totalqboost.boosting import BoostingResult, search
from totalqboost.ensemble import Ensemble, Points
from totalqboost.examples import check_examples
from totalqboost.integers import integer_weights
from totalqboost.master import MasterProblem
from totalqboost.settings import Settings, generator
from totalqboost.solvers import certify_integers

__all__ = ["main", "render"]  # table.py asks for render

DATASETS = (
    *("banana", "diabetes", "german", "image", "ringnorm", "splice", "waveform"),
    *("magic", "phoneme", "spambase"),
)
STUDIES: dict[str, tuple[str, float | str, int]] = {
    "logistic loss, 10 stumps": ("logistic", "auto", 10),
    "logistic loss, 20 stumps": ("logistic", "auto", 20),
    "exponential loss, l1 price 1e-6, 20 stumps": ("exponential", 1e-6, 20),
}
LINES = Path("runs") / "bits" / "lines.jsonl"
BITS = (8, 6, 4, 3, 2)
MAX_ROWS = 500
MEASURES = ("error", "log_loss")
Record = dict[str, Any]


def settings_of(study: str) -> Settings:
    loss, price, size = STUDIES[study]
    classifier = TotalQBoostClassifier(0.0, max_learners=size, loss=loss, l1_penalty=price)
    return classifier._check_parameters()


def trained(split: Split, study: str) -> BoostingResult:
    """Return the real optimum with its problem, as the classifier finds it."""
    settings, size = settings_of(study), STUDIES[study][2]
    engine = settings.engine(check_examples(split.X, split.y), generator(None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search(engine, size)


def ensemble(result: BoostingResult, w: np.ndarray, scale: float | None = None) -> Ensemble:
    assert result.problem is not None
    made = Ensemble.from_columns(result.learners, w, result.problem.cost == 0)
    if scale is None:
        return made
    weights = tuple(round(own / scale) for own in made.weights)
    return made.of_points(Points(weights, round(made.intercept / scale), scale))


def rounded(problem: MasterProblem, w: np.ndarray, n_bits: int) -> tuple[np.ndarray, float]:
    """Return what rounding after training gives: the largest weight is the largest integer."""
    scale = float(w[problem.cost > 0].max()) / ((1 << (n_bits - 1)) - 1)
    intercept = np.zeros_like(w)
    for one, other in problem.intercepts:
        b = np.rint((w[one] - w[other]) / scale)
        intercept[one], intercept[other] = max(b, 0.0), max(-b, 0.0)
    levels = np.where(problem.cost > 0, np.rint(w / scale), intercept)
    return levels * scale, scale


def measured(name: str, number: int, study: str, max_nodes: int) -> Iterator[Record]:
    """Yield one record for real weights, and two for each number of bits."""
    split = make_split(name, number, MAX_ROWS)
    result = trained(split, study)
    to_odds = 2.0 if STUDIES[study][0] == "exponential" else 1.0
    problem, w = result.problem, result.solution.w
    assert problem is not None

    def line(who: str, bits: int | None, w: np.ndarray, scale: float | None = None) -> Record:
        odds = to_odds * ensemble(result, w, scale).scores(split.X_test)
        own = measures(odds, split.y_test)
        head = {"data": name, "split": number, "study": study, "who": who, "bits": bits}
        return head | {"objective": problem.objective(w)} | own

    yield line("real", None, w)
    for bits in BITS:
        yield line("rounded", bits, *rounded(problem, w, bits))
        began = time.process_time()
        integers, scale = integer_weights(problem, w, bits)
        seconds = time.process_time() - began
        own = line("trained", bits, integers, scale) | {"seconds": seconds}
        if number == 0:
            proof = certify_integers(problem, integers, scale, bits, max_nodes)
            is_beaten = proof.objective < (1.0 - 1e-9) * own["objective"]
            own |= {"status": str(proof.status), "is_beaten": bool(is_beaten)}
        yield own


# -- summary -----------------------------------------------------------------------------------


def summary(lines: list[Record]) -> dict[str, Any]:
    """Return means over data sets, and how the pairs of trained and rounded compare."""
    groups: dict[tuple[str, int | None, str], list[Record]] = defaultdict(list)
    for line in lines:
        groups[line["study"], line["bits"], line["who"]].append(line)
    rows = []
    for study in dict.fromkeys(line["study"] for line in lines):
        real = groups[study, None, "real"]
        rows.append({"study": study, "bits": None} | _means("real", real, real))
        for bits in BITS:
            own = groups[study, bits, "trained"]
            row = {"study": study, "bits": bits, **_means("trained", own, real)}
            row |= _means("rounded", groups[study, bits, "rounded"], real)
            asked = [one for one in own if "status" in one]
            row |= {
                "certified": float(np.mean([one["status"] == "optimal" for one in asked])),
                "beaten": float(np.mean([one["is_beaten"] for one in asked])),
                "seconds": float(np.median([one["seconds"] for one in own])),
            }
            rows.append(row)
    return {"rows": rows, "sets": _sets(groups)}


def _means(who: str, lines: list[Record], real: list[Record]) -> dict[str, float]:
    """Return means over data sets, and standard errors of the difference to real weights."""
    row: dict[str, float] = {}
    for measure in MEASURES:
        own, base = _by_set(lines, measure), _by_set(real, measure)
        row[f"{who}_{measure}"] = float(own.mean())
        row[f"{who}_{measure}_se"] = float((own - base).std(ddof=1) / np.sqrt(len(own)))
    # Rounded weights can be without all measure: exponential losses of 1e80.
    excess = [a["objective"] - b["objective"] for a, b in zip(lines, real, strict=True)]
    row[f"{who}_excess"] = float(np.median(excess))
    row[f"{who}_worst"] = float((_by_set(lines, "error") - _by_set(real, "error")).max())
    return row


def _by_set(lines: list[Record], measure: str) -> np.ndarray:
    """Return the mean of each data set over its splits."""
    values: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        values[line["data"]].append(line[measure])
    return np.array([np.mean(own) for own in values.values()])


def _sets(groups: dict[tuple[str, int | None, str], list[Record]]) -> list[Record]:
    """Return test errors of each data set."""
    rows = []
    for (study, bits, who), lines in groups.items():
        for name in dict.fromkeys(line["data"] for line in lines):
            own = [line["error"] for line in lines if line["data"] == name]
            row = {"data": name, "study": study, "bits": bits, "who": who}
            rows.append(row | {"error": float(np.mean(own))})
    return rows


# -- tables ------------------------------------------------------------------------------------


def render(content: dict[str, Any]) -> str:
    """Return the tables of docs/bits.md."""
    results, configuration = content["results"], content["configuration"]
    parts = []
    for study in configuration["studies"]:
        rows = [row for row in results["rows"] if row["study"] == study]
        parts += [f"**{study[0].upper()}{study[1:]}**", _table(rows)]
        parts.append(_errors(results["sets"], study))
    n, splits = len(configuration["datasets"]), configuration["splits"]
    parts.append(
        f"Means over {n} data sets, {splits} splits each, at most {configuration['rows']} training "
        "rows. In brackets the difference to real weights with its standard error over data sets; "
        '"worst" is the largest rise of the error of a data set, "excess" the median by which the '
        'objective is above that of real weights, in training. "Proven": the share of ensembles '
        "of the first split for which the exact solver proves, within "
        f"{configuration['nodes']:,} nodes, that no other integers of the same stumps and scale "
        'have a lower objective; "beaten" is the share for which it found some.'
    )
    return "\n\n".join(parts)


def _table(rows: list[Record]) -> str:
    real = rows[0]
    header = ["bits", "weights", "test error %", "worst", "log-loss", "excess", "proven"]
    header += ["beaten", "seconds"]
    body = [["real", "", f"{real['real_error']:.2f}", "", f"{real['real_log_loss']:.4f}"]]
    body[0] += [""] * 4
    for row in rows[1:]:
        for who in ("trained", "rounded"):
            cells = [str(row["bits"]), who, _cell(row, real, who, "error", 2)]
            cells += [f"{row[f'{who}_worst']:+.1f}", _cell(row, real, who, "log_loss", 4)]
            cells.append(f"{row[f'{who}_excess']:.1e}")
            last = ["", "", ""]
            if who == "trained":
                last = [f"{row['certified']:.0%}", f"{row['beaten']:.0%}", f"{row['seconds']:.2f}"]
            body.append(cells + last)
    return table(header, body)


def _cell(row: Record, real: Record, who: str, measure: str, digits: int) -> str:
    value, se = row[f"{who}_{measure}"], row[f"{who}_{measure}_se"]
    difference = value - real[f"real_{measure}"]
    return f"{value:.{digits}f} ({difference:+.{digits}f} ± {se:.{digits}f})"


def _errors(sets: list[Record], study: str) -> str:
    """Return the test errors of each data set: real, and trained / rounded by bits."""
    found = {(r["data"], r["bits"], r["who"]): r["error"] for r in sets if r["study"] == study}
    names = dict.fromkeys(name for name, _, _ in found)
    header = ["test error %", "real", *(f"{bits} bits" for bits in BITS)]
    body = []
    for name in names:
        cells = [name, f"{found[name, None, 'real']:.1f}"]
        for bits in BITS:
            pair = (found[name, bits, who] for who in ("trained", "rounded"))
            cells.append(" / ".join(f"{error:.1f}" for error in pair))
        body.append(cells)
    return "Trained / rounded:\n\n" + table(header, body)


def read_lines(path: Path) -> dict[tuple[Any, ...], list[Record]]:
    """Return the records that are known, by data set, split, study and nodes."""
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {tuple(line["key"]): line["records"] for line in lines}


def main() -> None:
    arguments = parse_arguments(__doc__, splits=5, nodes=1000)
    names, studies, splits, path = list(DATASETS), list(STUDIES), arguments.splits, LINES
    if arguments.quick:
        names, studies, splits = ["diabetes", "thyroid"], studies[:1], 1
        path = path.with_name("quick.jsonl")
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    known = read_lines(path)
    records: list[Record] = []
    for key in product(range(splits), names, studies, [arguments.nodes]):
        if key not in known:
            number, name, study, nodes = key
            known[key] = list(measured(name, number, study, nodes))
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "records": known[key]}) + "\n")
            say(f"{name} {number} {study}")
        records += known[key]
    configuration = {
        "datasets": names,
        "splits": splits,
        "studies": studies,
        "rows": MAX_ROWS,
        "nodes": arguments.nodes,
    }
    print(render(save("bits", arguments, configuration, summary(records))))


if __name__ == "__main__":
    main()
