"""The tables of docs/reproduction.md, from the numbers of reproduction.json."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from common import table, verdict
from reproduction_values import METHODS, SIZES
from scipy import stats

from totalqboost.experiments.report.page import p_value
from totalqboost.experiments.rows import STRATEGIES

LIMITS = {"local": 60, "tabu": 1800}  # seconds
FEW = 0.75  # of the learners that were allowed: an ensemble of fewer tells how many it has
MAIN_SIZE = 10  # of the table of baselines that stands on top
TITLES = {
    "convex": "A, B",
    "cp": "C, D, E",
    "elimination": "B + elimination",
    "random": "random columns",
    "adaboost": "AdaBoost",
    "lpboost": "LPBoost",
    "erlpboost": "ERLPBoost",
}
MEASURES = {"risk": "empirical risk", "train_error": "training error"}
LEVEL = 0.05


def render(content: dict[str, Any], part: str | None = None) -> str:
    """Return the tables of one part of the page, or of all, as Markdown."""
    if part is not None:
        return PARTS[part](content)
    return "\n\n".join(
        f"### {name.capitalize()}\n\n{make(content)}" for name, make in PARTS.items()
    )


def p_equals(p: float) -> str:
    """Return a p-value for a sentence: p = 0.031 or p < 0.001."""
    text = p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def _times(content: dict[str, Any]) -> str:
    rows = [["the paper: 1,800 machines, 16 cores each", "one week", "4,838,400 h", "", ""]]
    for name, times in content["results"]["times"].items():
        limit = LIMITS[name]
        rows.append(
            [
                f"`totalqboost reproduce --solver {name}`",
                _duration(times["wall"]),
                f"{times['computing'] / 3600:.2f} h",
                _duration(limit),
                verdict(times["wall"] < limit),
            ]
        )
    header = ["A to E, twelve data sets, one split", "Time", "Core time", "Target", "Met"]
    loads = ", ".join(
        f"{name} {times['load_before']}"
        for name, times in content["results"]["times"].items()
        if times.get("load_before") is not None
    )
    busy = f" Load average before the run: {loads}." if loads else ""
    seconds = content["results"]["seconds"]
    costs = ", ".join(
        f"{name} {seconds[name]:.0f}" for name in sorted(seconds, key=_by_cost(seconds))
    )
    return (
        f"{table(header, rows)}\n\nSeconds of one core per split of all data sets (medians over "
        f"splits, added up), by strategy: {costs}.{busy}"
    )


def _by_cost(seconds: dict[str, float]) -> Callable[[str], float]:
    return lambda name: -seconds[name]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return " ".join(f"{n} {unit}" for n, unit in ((minutes, "min"), (rest, "s")) if n) or "0 s"


# -- how well the problems are solved -------------------------------------------------------


def _success(content: dict[str, Any]) -> str:
    tabu = {_key(entry): entry for entry in content["results"]["tabu_success"]}
    rows = [
        [
            f"{ours['strategy']} against {ours['other']}, {MEASURES[ours['measure']]}",
            *_shares(ours, "not run yet"),
            *_shares(tabu.get(_key(ours))),
            f"{100 * ours['paper']:.2f} %",
        ]
        for ours in content["results"]["success"]
    ]
    header = ["At coinciding cardinalities", "Local: worse", "better", "of"]
    header += ["Tabu, one split: worse", "better", "of", "The paper: worse"]
    means = ", ".join(
        f"{entry['strategy']} minus {entry['other']} {100 * entry['difference']:+.2f}"
        + _largest(entry.get("largest"))
        for entry in content["results"]["success"]
        if entry["measure"] == "train_error" and entry["coinciding"]
    )
    return f"{table(header, rows)}\n\nTraining error, mean in points, local search: {means}."


def _largest(part: tuple[str, float] | None) -> str:
    return "" if part is None else f" (of which {part[0]} {100 * part[1]:+.2f})"


def _key(entry: dict[str, Any]) -> tuple[str, str, str]:
    return entry["strategy"], entry["other"], entry["measure"]


def _shares(found: dict[str, Any] | None, nothing: str = "-") -> list[str]:
    if found is None or not found["coinciding"]:
        return ["-", "-", nothing]
    shares = [f"{100 * found[what] / found['coinciding']:.2f} %" for what in ("worse", "better")]
    return [*shares, f"{found['coinciding']:,}"]


def _effort(content: dict[str, Any]) -> str:
    entries = content["results"]["effort"]
    pairs = list(dict.fromkeys((entry["ours"], entry["theirs"]) for entry in entries))
    by_key = {(e["dataset"], e["ours"], e["theirs"]): e for e in entries}
    names = list(dict.fromkeys(entry["dataset"] for entry in entries))
    rows = []
    for name in names:
        found = [by_key.get((name, *pair)) for pair in pairs]
        rows.append([name, *(_points(one and one["error"]) for one in found)])
    risks = [["risk, median of sets", *(f"{100 * _risk(entries, *pair):+.2f} %" for pair in pairs)]]
    header = ["Points of error", *(f"{ours} − {theirs}" for ours, theirs in pairs)]
    n_splits = content["results"]["n_splits"]
    sentences = [_sentence(entries, *pair, min(n_splits[who] for who in pair)) for pair in pairs]
    told = "\n".join(f"- {text}" for text in sentences)
    return f"{table(header, rows + risks)}\n\n{told}{_costs(content)}"


def _costs(content: dict[str, Any]) -> str:
    """Return the effort itself, if it was measured."""
    seconds = content["results"].get("seconds", {})
    told = ", ".join(
        f"{who} {seconds[who]:.0f}" + (" on top of E's" if who == "D" else "")
        for who in ("E", "D", "D0", "C")
        if who in seconds
    )
    return f"\n\nSeconds of one core per split of all data sets: {told}." if told else ""


def _of_pair(entries: list[dict[str, Any]], ours: str, theirs: str) -> list[dict[str, Any]]:
    return [e for e in entries if (e["ours"], e["theirs"]) == (ours, theirs)]


def _risk(entries: list[dict[str, Any]], ours: str, theirs: str) -> float:
    """Return the median over data sets: where classes are separated, ratios of risks are huge."""
    return float(np.median([entry["risk"] for entry in _of_pair(entries, ours, theirs)]))


def _sentence(entries: list[dict[str, Any]], ours: str, theirs: str, n_splits: int) -> str:
    """Return what one column says: the range, and what survives a correction for all sets."""
    mine = _of_pair(entries, ours, theirs)
    means = [100 * entry["error"]["mean"] for entry in mine]
    real = [e for e in mine if e["error"]["p"] * len(mine) <= LEVEL]
    named = ", ".join(f"{e['dataset']} ({100 * e['error']['mean']:+.2f})" for e in real)
    limits = [e["error"]["detectable"] for e in mine]
    n_lower = sum(e["risk"] < 0 for e in mine)
    found = (
        f"{ours} − {theirs}: between {min(means):+.2f} and {max(means):+.2f} points, the risk "
        f"lower on {n_lower} of {len(mine)} data sets; {_missing(mine, n_splits)}"
    )
    if None in limits:
        return f"{found}so few splits prove nothing."
    return (
        f"{found}real after a correction for {len(mine)} data sets: {named or 'none'}. A "
        f"difference of {100 * max(limits):.1f} points would have been found with probability 0.8 "
        "on every set."
    )


def _missing(mine: list[dict[str, Any]], n_splits: int) -> str:
    """Return on which data sets some splits have no common size, for a sentence."""
    missing = ", ".join(
        f"{n} of {n_splits} splits of {entry['dataset']}"
        for entry in mine
        if (n := n_splits - entry["error"]["n_splits"])
    )
    return f"without {missing}, where they have no size in common; " if missing else ""


# -- beside the paper -----------------------------------------------------------------------


def _gains(content: dict[str, Any]) -> str:
    found = content["results"]["gains"]
    rows = []
    for entry in found:
        cells = [entry["dataset"]]
        for what in ("sparsity", "generalization"):
            cells += [
                f"{100 * entry[f'paper_{what}']:.1f}",
                _gain(entry[what]),
                _gain(entry[f"reversed_{what}"]),
            ]
        rows.append(cells)
    header = ["Data set", "Sparsity: paper", "ours", "reversed"]
    header += ["Generalization: paper", "ours", "reversed"]
    n = max((entry["n_splits"] for entry in found), default=0)
    return (
        f"{table(header, rows)}\n\nPercent; mean ± standard deviation over {n} splits, in "
        "brackets the number of splits with any gain. Splits without one count as 0."
        f"{_perfect(found)}\n\n"
        "- The paper's sparsity gains lie within the range of ours on "
        f"{_within(found, 'sparsity')} and its generalization gains on "
        f"{_within(found, 'generalization')} of {len(found)} data sets. One more split like ours "
        f"is outside with a probability of at most {2 / (n + 1):.3f} on each. The ranges are wide: "
        f"{_range(found, 'sparsity')} of sparsity and {_range(found, 'generalization')} of "
        "generalization, medians over the data sets.\n"
        f"{_gain_counts(content)}"
    )


def _perfect(found: list[dict[str, Any]]) -> str:
    """Return which gains are the whole error of a few rows."""
    return "".join(
        f" On {entry['dataset']} {len(entry['perfect'])} of the {entry['generalization']['splits']}"
        " generalization gains are 100 %: no error of C, D, E on "
        f"{' and '.join(map(str, dict.fromkeys(entry['perfect'])))} validation rows."
        for entry in found
        if entry["perfect"]
    )


def _gain_counts(content: dict[str, Any]) -> str:
    counts, sizes = content["results"]["gain_counts"], content["results"]["group_sizes"]
    n_splits = counts["all"]["splits"]

    def told(where: str) -> str:
        ours, other_way = counts[where], counts[f"{where}, reversed"]
        return (
            f"sparsity gains on {ours['sparsity']} of {n_splits} splits of all data sets, "
            f"generalization gains on {ours['generalization']}; reversed "
            f"{other_way['sparsity']} and {other_way['generalization']}"
        )

    means = " and ".join(
        f"{title} {sizes[group]['ours']:.0f} sizes a split (the paper {sizes[group]['paper']:.0f})"
        for group, title in (("convex", TITLES["convex"]), ("cp", TITLES["cp"]))
    )
    return (
        f"- At all sizes: {told('all')}.\n- Where both groups have the size: {told('common')}.\n"
        f"- Means over the data sets: {means}."
    )


def _within(found: list[dict[str, Any]], what: str) -> int:
    """Return on how many data sets the paper's gain is not beyond those of all our splits."""
    return sum(
        entry[what]["least"] <= entry[f"paper_{what}"] <= entry[what]["most"] for entry in found
    )


def _range(found: list[dict[str, Any]], what: str) -> str:
    least, most = (np.median([entry[what][end] for entry in found]) for end in ("least", "most"))
    return f"{100 * least:.0f} to {100 * most:.0f} %"


def _gain(found: dict[str, Any]) -> str:
    spread = "" if found["spread"] is None else f" ± {100 * found['spread']:.1f}"
    return f"{100 * found['mean']:.1f}{spread} ({found['splits']})"


def _agreement(content: dict[str, Any]) -> str:
    found = content["results"]["agreement"]
    kinds = {"convex": "A, B", "cp": "C, D, E", "difference": "difference"}
    by_name: dict[str, dict[str, Any]] = {}
    for what in kinds:
        for entry in found[what]["datasets"]:
            by_name.setdefault(entry["dataset"], {})[what] = entry
    rows = []
    for name, entries in by_name.items():
        cells: list[str] = [name]
        for what in kinds:
            cells += _distance(entries.get(what))
        rows.append(cells)
    header = ["Error, %"]
    for title in kinds.values():
        header += [f"{title}: ours", "paper", "distance"]
    tests = [_tested(title, found[what]["together"]) for what, title in kinds.items()]
    return table(header, rows) + "\n\n" + "\n".join(f"- {text}" for text in tests if text)


def _distance(entry: dict[str, Any] | None) -> list[str]:
    if entry is None:
        return ["-", "-", "-"]
    spread = "" if entry["spread"] is None else f" ± {100 * entry['spread']:.2f}"
    distance = "-" if entry["distance"] is None else f"{entry['distance']:+.1f}"
    return [f"{100 * entry['ours']:.2f}{spread}", f"{100 * entry['paper']:.2f}", distance]


def _tested(title: str, found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    passed = found["p_size"] > LEVEL and found["p_lean"] > LEVEL
    return (
        f"{title}: distances as large as luck makes them {p_equals(found['p_size'])}; mean "
        f"distance {found['lean']:+.2f}, {p_equals(found['p_lean'])} (one of "
        f"{found['detectable']:.2f} would be found with probability 0.8, and one data set that is "
        f"{found['detectable_one']:.1f} off). Agreement not rejected at 5 %: {verdict(passed)}."
    )


# -- validation errors ----------------------------------------------------------------------


def _generalization(content: dict[str, Any]) -> str:
    rows = []
    for entry in content["results"]["generalization"]:
        overall, best = entry["overall"], entry["best"]
        rows.append(
            [
                entry["dataset"],
                _points(overall),
                _p(overall),
                _detectable(overall),
                f"{entry['sizes']:.1f}",
                _ranges(entry["better"]),
                _ranges(entry["worse"]),
                _points(best),
                _p(best),
            ]
        )
    header = ["C, D, E minus A, B", "Equal size", "p", "Detectable", "Sizes a split"]
    header += ["Better at", "Worse at"]
    lines = [
        f"- {title}: real after a correction for {len(rows)} data sets: {_real(content, what)}."
        for title, what in (("At equal size", "overall"), ("Least error", "best"))
    ]
    return table([*header, "Least error", "p"], rows) + "\n\n" + "\n".join(lines)


def _real(content: dict[str, Any], what: str) -> str:
    """Return the data sets whose difference survives Bonferroni's correction."""
    found = content["results"]["generalization"]
    real = [e for e in found if e[what] and e[what]["p"] * len(found) <= LEVEL]
    return ", ".join(f"{e['dataset']} ({100 * e[what]['mean']:+.2f})" for e in real) or "none"


def _points(difference: dict[str, Any] | None) -> str:
    if difference is None:
        return "-"
    error = difference["standard_error"]
    spread = "" if error is None else f" ± {100 * error:.2f}"
    return f"{100 * difference['mean']:+.2f}{spread}"


def _p(difference: dict[str, Any] | None) -> str:
    return "-" if difference is None else p_value(difference["p"])


def _detectable(difference: dict[str, Any] | None) -> str:
    if difference is None or difference["detectable"] is None:
        return "-"
    return f"{100 * difference['detectable']:.1f}"


def _ranges(sizes: list[int]) -> str:
    """Return 3, 5-8 for 3, 5, 6, 7, 8."""
    runs: list[list[int]] = []
    for size in sizes:
        if runs and size == runs[-1][-1] + 1:
            runs[-1].append(size)
        else:
            runs.append([size])
    return ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else f"{r[0]}" for r in runs) or "-"


def _baselines(content: dict[str, Any]) -> str:
    found = content["results"]["baselines"]
    methods = [m for m in METHODS if any(entry.get(m) for entry in found)]
    others = [size for size in SIZES if size != MAIN_SIZE]
    text = _baseline_table(found, methods, MAIN_SIZE)
    folded = "\n\n".join(_baseline_table(found, methods, size) for size in others)
    listed = ", ".join(str(size) for size in others[:-1]) + f" and {others[-1]}"
    summary = f"<summary>With at most {listed} learners</summary>"
    told = [_against_all(found, methods), _one_margin(content["results"]["one_margin"])]
    sentences = "\n".join(f"- {sentence}" for sentence in told if sentence)
    return f"{text}\n\n<details>{summary}\n\n{folded}\n\n</details>\n\n{sentences}".rstrip()


def _baseline_table(found: list[dict[str, Any]], methods: Sequence[str], size: int) -> str:
    place = SIZES.index(size)
    rows = [
        [entry["dataset"], *(_cell(entry[m] and entry[m][place], size) for m in methods)]
        for entry in found
    ]
    for title, what, scale in (("mean of sets", "mean", 100), ("learners used", "learners", 1)):
        values = [_known(found, method, place, what) for method in methods]
        rows.append([title, *(f"{scale * np.mean(v):.1f}" if v else "-" for v in values)])
    n_splits = {n for m in methods for n in _known(found, m, place, "n_splits")}
    told = "one split" if n_splits == {1} else f"{max(n_splits, default=0)} splits"
    header = [f"Error %, at most {size} learners, {told}", *(TITLES[m] for m in methods)]
    return f"{table(header, rows)}\n\n{_against(found, methods, place)}"


def differences(
    found: list[dict[str, Any]], methods: Sequence[str], place: int
) -> dict[str, tuple[float, float]]:
    """Return mean differences between C, D, E and the others, data sets being the sample; and p."""
    tested = {}
    for method in methods:
        sizes = [(e["cp"][place], e[method][place]) for e in found if e["cp"] and e[method]]
        pairs = [(a["mean"], b["mean"]) for a, b in sizes if a["mean"] and b["mean"]]
        if method == "cp" or len(pairs) < 3:
            continue
        d = np.array([a - b for a, b in pairs])
        tested[method] = float(d.mean()), float(stats.ttest_1samp(d, 0.0).pvalue)
    return tested


def _against(found: list[dict[str, Any]], methods: Sequence[str], place: int) -> str:
    told = ", ".join(
        f"{TITLES[method]} {100 * mean:+.1f} ({p_equals(p)})"
        for method, (mean, p) in differences(found, methods, place).items()
    )
    return f"C, D, E minus the others, points, data sets being the sample, uncorrected: {told}."


def _against_all(found: list[dict[str, Any]], methods: Sequence[str]) -> str:
    """Return which differences survive Bonferroni's correction for all sizes and methods."""
    tested = {
        (method, size): p
        for place, size in enumerate(SIZES)
        for method, (_, p) in differences(found, methods, place).items()
    }
    if not tested:
        return ""
    real = [key for key, p in tested.items() if p * len(tested) <= LEVEL]
    named = ", ".join(f"{TITLES[method]} at {size}" for method, size in real) or "none"
    return (
        f"C, D, E minus the others: real after a correction for {len(tested)} tests (methods and "
        f"sizes): {named}."
    )


def _one_margin(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return the means with one soft margin for all data sets, at the two largest sizes."""
    longest = max(found.values(), key=len)
    if not longest:
        return ""
    margins = " / ".join(f"{one['margin']:g}" for one in longest)
    told = "; ".join(
        f"at most {size} learners: "
        + ", ".join(
            f"{TITLES[method]} {' / '.join(_percent(one['means'][place]) for one in members)} %"
            for method, members in found.items()
        )
        for place, size in list(enumerate(SIZES))[-2:]
    )
    return f"Means with one soft margin for all data sets ({margins}), {told}."


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _known(found: list[dict[str, Any]], method: str, place: int, what: str) -> list[Any]:
    sizes = [entry[method][place] for entry in found if entry[method]]
    return [size[what] for size in sizes if size["mean"] is not None]


def _cell(found: dict[str, Any] | None, size: int) -> str:
    """Return the error, and in brackets the learners if they are far fewer than allowed."""
    if not found or found["mean"] is None:
        return "-"
    error, learners = found["standard_error"], found["learners"]
    used = f" ({learners:.1f})" if learners < FEW * size else ""
    return f"{100 * found['mean']:.1f}" + ("" if error is None else f" ± {100 * error:.1f}") + used


def _rows(content: dict[str, Any]) -> str:
    """Return which rows are behind the tables: an honest line of what has been run."""
    splits = content["results"]["n_splits"]
    told = ", ".join(f"{name} {n}" for name, n in splits.items())
    tabu = content["results"].get("times", {}).get("tabu", {}).get("splits")
    with_tabu = f"; A to E and D0 with tabu search {tabu}" if tabu else ""
    text = f"Splits of each strategy behind the tables: {told}{with_tabu}."
    if missing := [name for name in STRATEGIES if name not in splits]:
        text += f" Not run yet: {', '.join(missing)}."
    if content["configuration"].get("is_older"):
        text = (
            "**These tables are of an older run**, with an earlier search and other settings than "
            f"today's; `python benchmarks/reproduction.py` makes them anew. {text}"
        )
    return text


PARTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "times": _times,
    "gains": _gains,
    "agreement": _agreement,
    "success": _success,
    "effort": _effort,
    "generalization": _generalization,
    "baselines": _baselines,
    "rows": _rows,
}
