"""What generalization.py found, as Markdown and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from common import table, verdict
from generalization_values import SIGNS, Record, Values
from models import OWN
from ranks import LEVEL, Versus, against, critical_difference, draw, friedman, mean_ranks
from tuned_boosters import RULES

MINE = ("ours CV", "ours")  # the first that has run is compared with the others
OURS = ("ours CV", "ours", "ours, exponential", "column generation")
BOOSTERS = ("LightGBM", "XGBoost", "GradientBoosting", "AdaBoost")
STUMPS = (*OURS, *BOOSTERS, "abess", "l1 path", "EBM")
OTHERS = (*(f"{name}, by rounds" for name in BOOSTERS), "CART", "FIGS", "GOSDT", "FasterRisk")
TITLES = {"error": "test error (%)", "log_loss": "log-loss", "auc": "AUC"}
TWO_THIRDS = 40 / 3  # of 20 stumps
BAD = 1.0  # points of error by which a peer is better that are worth a line


def mine(values: Values) -> str:
    """Return the one of ours that is compared with the others."""
    for who in MINE:
        if values.has(who):
            return who
    raise SystemExit(f"nothing to compare with: run one of ours first ({' or '.join(MINE)})")


# -- at equal size --------------------------------------------------------------------------


def equal_size(values: Values, sizes: Sequence[int]) -> list[str]:
    """Return the tables of models of one class, stumps charged by distinct stumps."""
    me = mine(values)
    names = values.present(STUMPS, sizes, me)
    lines = []
    for measure, title in TITLES.items():
        found, ranks = ranked(values, names, sizes, measure, title)
        lines += [*found, "", best_at_every_size(me, ranks, sizes, title), ""]
    return lines


Ranks = dict[str, float]


def ranked(
    values: Values, names: Sequence[str], sizes: Sequence[int], measure: str, title: str
) -> tuple[list[str], list[Ranks]]:
    """Return the table of one measure with mean ranks, and the ranks at each size."""
    found = values.common(names, sizes, measure)
    n_sets = next(iter(found.values())).shape[1]
    ranks = [mean_ranks({w: f[i] for w, f in found.items()}) for i in range(len(sizes))]
    over_all = mean_ranks({w: f.mean(axis=0) for w, f in found.items()})
    rows = []
    for who in sorted(names, key=lambda w: over_all[w]):
        means = SIGNS[measure] * found[who].mean(axis=1)
        digits = 2 if measure == "error" else 3
        cells = [f"{m:.{digits}f} ({r[who]:.1f})" for m, r in zip(means, ranks, strict=True)]
        rows.append([who, *cells, f"{means.mean():.{digits}f}", f"{over_all[who]:.2f}"])
    header = [f"{title}, mean (rank)", *(f"k = {k}" for k in sizes), "all sizes", "rank"]
    p = friedman({w: f.mean(axis=0) for w, f in found.items()})
    said = f"{n_sets} sets; Friedman's test that all are equal: p = {_p(p)}."
    return [table(header, rows), "", said], ranks


def best_at_every_size(me: str, ranks: list[Ranks], sizes: Sequence[int], title: str) -> str:
    better = []
    for k, rank in zip(sizes, ranks, strict=True):
        ahead = [f"{w} {r:.2f}" for w, r in rank.items() if r < rank[me] - 1e-9]
        if ahead:
            better.append(f"k = {k}: {', '.join(ahead)} against {rank[me]:.2f}")
    text = f"- *{me}* has the best mean rank in {title} at every size: {verdict(not better)}."
    return text + "".join(f"\n  - {line}" for line in better)


def tests(values: Values, sizes: Sequence[int]) -> list[str]:
    """Return the one of ours against everybody, one test for each measure and rival."""
    me = mine(values)
    lines = []
    rivals = [w for w in values.present(STUMPS, sizes, me) if w != me]
    for measure, title in TITLES.items():
        found = values.common([me, *rivals], sizes, measure)
        versus = against(found[me].mean(axis=0), {w: found[w].mean(axis=0) for w in rivals})
        lines += [versus_table(f"{title}: {me} minus", versus, measure), ""]
        for v in versus:
            if v.name in BOOSTERS[:2]:
                is_met = v.mean < 0 and v.p_adjusted <= LEVEL
                lines.append(
                    f"- In {title}, *{me}* is better than tuned {v.name} over all sizes, and "
                    f"significantly so after Holm's correction: {verdict(is_met)}."
                )
        lines.append("")
    return lines


def versus_table(title: str, versus: Sequence[Versus], measure: str) -> str:
    """Return one against each other, with tests."""
    sign, digits = SIGNS[measure], 2 if measure == "error" else 4
    rows = [
        [
            v.name,
            f"{sign * v.mean:+.{digits}f} ± {v.standard_error:.{digits}f}",
            f"{v.wins} / {v.ties} / {v.losses}",
            _p(v.p_value),
            _p(v.p_adjusted) + (" *" if v.p_adjusted <= LEVEL else ""),
        ]
        for v in versus
    ]
    return table([title, "mean", "better / equal / worse", "p", "p after Holm"], rows)


def span(least: int, most: int) -> str:
    """Return two numbers, or one if they are equal."""
    return f"{least}" if least == most else f"{least} to {most}"


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def other_models(values: Values, sizes: Sequence[int]) -> list[str]:
    """Return ours against models of other classes or charges, each on the splits it has."""
    me = mine(values)
    rows = []
    for who in OTHERS:
        if not values.has(who):
            continue
        error, loss = (values.common([me, who], sizes, m) for m in ("error", "log_loss"))
        splits = (~np.isnan(values.stacked(who, sizes, "error"))).all(axis=0).sum(axis=1)
        (v,) = against(error[me].mean(axis=0), {who: error[who].mean(axis=0)})
        difference = float((loss[me] - loss[who]).mean())
        differences = (error[me] - error[who]).mean(axis=1)
        rows.append(
            [
                who,
                span(splits.min(), splits.max()),
                f"{v.mean:+.2f} ± {v.standard_error:.2f}",
                f"{differences[0]:+.2f}",
                f"{differences[-1]:+.2f}",
                f"{v.wins} / {v.ties} / {v.losses}",
                f"{difference:+.3f}",
            ]
        )
    header = [f"{me} minus", "splits", "error", f"k = {sizes[0]}", f"k = {sizes[-1]}"]
    return [table([*header, "better / equal / worse", "log-loss"], rows), ""]


def per_set(values: Values, sizes: Sequence[int]) -> list[str]:
    """Return the error of every set, and where a peer is better by a point."""
    me = mine(values)
    every = values.present((*STUMPS, *OTHERS), sizes, me)
    names = [who for who in every if who != "column generation"]
    peers = [w for w in names if w not in OURS]
    kept = [w for w in (*OURS, "LightGBM", "XGBoost") if w in names]
    found = values.common(names, sizes, "error")
    is_kept = np.all(
        [~np.isnan(values.stacked(w, sizes, "error")).any(axis=0) for w in names], axis=0
    ).any(axis=1)
    rows, beaten = [], []
    sets = [name for name, keep in zip(values.names, is_kept, strict=True) if keep]
    for i, name in enumerate(sets):
        means = {w: float(found[w][:, i].mean()) for w in names}
        best = min(peers, key=lambda w: means[w])
        wins = sum(means[me] < means[w] - 1e-9 for w in peers)
        losses = sum(means[me] > means[w] + 1e-9 for w in peers)
        rows.append(
            [
                name,
                *(f"{means[w]:.2f}" for w in kept),
                f"{best} {means[best]:.2f}",
                f"{wins} / {losses}",
            ]
        )
        if means[best] < means[me] - BAD:
            ahead = sorted((w for w in peers if means[w] < means[me] - BAD), key=lambda w: means[w])
            said = ", ".join(f"{w} {means[w]:.1f}" for w in ahead)
            beaten.append(f"- {name} ({me} {means[me]:.1f} %): {said}")
    header = ["error (%), mean over sizes", *kept, "best peer", f"{me}: wins / losses"]
    lines = [table(header, rows), "", f"Peers that beat *{me}* by more than {BAD:g} point:", ""]
    return [*lines, *(beaten or ["- none"]), ""]


def calibration(values: Values, sizes: Sequence[int], seconds: dict[str, float]) -> list[str]:
    """Return calibration errors, and CPU seconds of a call."""
    names = values.present((*STUMPS, *OTHERS), sizes, mine(values))
    found = values.common(names, sizes, "calibration")
    calls = {"ours": "ours path", "ours, exponential": "ours exponential"}
    rows = []
    for who in sorted(names, key=lambda w: float(found[w].mean())):
        call = calls.get(who, who.removesuffix(", by rounds"))
        cells = [f"{m:.3f}" for m in found[who].mean(axis=1)]
        rows.append([who, *cells, f"{seconds.get(call, np.nan):.2f}"])
    header = ["expected calibration error", *(f"k = {k}" for k in sizes), "CPU s, all sizes"]
    return [table(header, rows), ""]


# -- by choice ------------------------------------------------------------------------------


def by_choice(values: Values) -> list[str]:
    """Return what each method's own choice of size gives."""
    choosers = [who for who in values.results["values"] if values.has(who, OWN)]
    me = next(who for who in ("ours CV", "ours, fit()", "constant") if who in choosers)
    names = values.present(choosers, [OWN], me)
    measures = ("cuts", "error", "log_loss", "auc", "calibration")
    found = {m: values.common(names, [OWN], m) for m in measures}
    constant = found["log_loss"]["constant"][0]
    ranks = mean_ranks({w: found["error"][w][0] for w in names})
    rows = []
    for who in sorted(names, key=lambda w: ranks[w]):
        means = {m: SIGNS[m] * float(found[m][who].mean()) for m in measures}
        n_bad = int(np.sum(found["log_loss"][who][0] > constant + 1e-9))
        rows.append(
            [
                who,
                f"{means['cuts']:.1f}",
                f"{means['error']:.2f}",
                f"{ranks[who]:.2f}",
                *(f"{means[m]:.3f}" for m in measures[2:]),
                n_bad,
            ]
        )
    header = ["size by its own choice", "distinct stumps", "test error (%)", "rank", "log-loss"]
    header += ["AUC", "calibration error", "sets with log-loss above the constant's"]
    lines = [table(header, rows), ""]
    fixed = ("LightGBM, 20 rounds", "LightGBM, 20 stumps")
    duels: list[tuple[str, str, float | None]]
    duels = [("ours, fit()", other, TWO_THIRDS) for other in fixed]
    duels += [("ours CV", f"{p} CV, {rule}", None) for rule in RULES for p in BOOSTERS[:2]]
    for me, other, limit in duels:
        if me in names and other in names:
            lines += [_duel(found, me, other, limit), ""]
    return lines


def _duel(found: dict[str, dict[str, np.ndarray]], me: str, other: str, limit: float | None) -> str:
    """Return one comparison in words, with what was asked of it.

    ``limit`` is the most stumps that ours may have; None means as many as the other.
    """
    cuts = [float(found["cuts"][w].mean()) for w in (me, other)]
    error, loss = (
        against(found[m][me][0], {other: found[m][other][0]})[0] for m in ("error", "log_loss")
    )
    bad = int(np.sum(found["log_loss"][me][0] > found["log_loss"]["constant"][0] + 1e-9))
    if limit is None:
        is_met = error.mean < 0 and cuts[0] <= cuts[1]
        asked = "a lower error with no more stumps"
    else:
        is_met = error.mean <= 0 and loss.mean <= 0 and not bad and cuts[0] <= limit
        asked = f"neither error nor log-loss higher with at most {limit:.1f} stumps, and no set "
        asked += "whose log-loss is above the constant's"
    return (
        f"- *{me}* against *{other}*: {cuts[0]:.1f} distinct stumps against {cuts[1]:.1f}; error "
        f"{error.mean:+.2f} ± {error.standard_error:.2f} points (p = {_p(error.p_value)}, "
        f"{error.wins} better / {error.ties} equal / {error.losses} worse), log-loss "
        f"{loss.mean:+.4f} ± {loss.standard_error:.4f} (p = {_p(loss.p_value)}, {loss.wins} / "
        f"{loss.ties} / {loss.losses}). Asked: {asked}: {verdict(is_met)}."
    )


# -- studies --------------------------------------------------------------------------------


def new_user(rows: Sequence[Record]) -> list[str]:
    header = ["5-fold, defaults", "stumps", "accuracy", "log-loss", "LightGBM: stumps"]
    header += ["accuracy", "log-loss", "log-loss of the constant", "at least level"]
    cells = []
    for name in dict.fromkeys(row["data"] for row in rows):
        own, peer = ({r["who"]: r for r in rows if r["data"] == name}[w] for w in _BOTH)
        both = [
            text
            for r in (own, peer)
            for text in (f"{r['stumps']:.1f}", f"{r['accuracy']:.3f}", f"{r['log_loss']:.3f}")
        ]
        is_level = own["accuracy"] >= peer["accuracy"] and own["log_loss"] <= peer["log_loss"]
        cells.append([name, *both, f"{own['constant_log_loss']:.3f}", verdict(is_level)])
    return [table(header, cells), ""]


_BOTH = ("ours", "LightGBM")


def time_of_cv(rows: Sequence[Record]) -> list[str]:
    one, many = (row["seconds"] for row in rows)
    ratio = many / one
    return [
        f"- 5-fold cross-validation over 5 values of ν and sizes to 20 on 1,000 × 20: {many:.2f} "
        f"CPU s, {ratio:.1f} times one frontier ({one:.2f} s); wanted at most 10: "
        f"{verdict(ratio <= 10)}.",
        "",
    ]


# -- page -----------------------------------------------------------------------------------


def render(content: Record) -> str:
    """Return all tables as Markdown."""
    results, sizes = content["results"], content["configuration"]["sizes"]
    values = Values(results)
    n_splits, n_sets = len(results["splits"]), len(results["data"])
    lines = [
        f"{n_sets} data sets, {n_splits} splits, at most {content['configuration']['rows']} "
        "training rows.",
        "",
        "### At equal size",
        "",
        *equal_size(values, sizes),
        "Differences over all sizes, one observation per set; Wilcoxon's test from both sides:",
        "",
        *tests(values, sizes),
        "Models of other kinds, and boosters charged by rounds:",
        "",
        *other_models(values, sizes),
        "### Set by set",
        "",
        *per_set(values, sizes),
        "### Calibration and time",
        "",
        *calibration(values, sizes, results["seconds"]),
        "### The user with training data only",
        "",
        *by_choice(values),
    ]
    renderers: dict[str, Callable[[Sequence[Record]], list[str]]] = {
        "new user": new_user,
        "time of CV": time_of_cv,
    }
    for name, rows in results["studies"].items():
        lines += [f"### {name[0].upper()}{name[1:]}", "", *renderers[name](rows)]
    return "\n".join([*lines, "### Who is absent", "", *absent(results)]).rstrip()


def absent(results: Record) -> list[str]:
    """Return who did not run, or not everywhere, and why."""
    lines = [f"- {name}: has not run." for name in results["missing"]]
    for name, reasons in results["absent"].items():
        said = "; ".join(f"{reason} ({count} times)" for reason, count in reasons.items())
        lines.append(f"- {name}: no answer in some runs: {said}.")
    for name, counts in results["fewer_splits"].items():
        lines.append(f"- {name}: ran on {span(*counts)} of {len(results['splits'])} splits only.")
    return lines or ["- nobody"]


def draw_ranks(content: Record, path: Path) -> None:
    """Draw the mean ranks over all sizes with the critical difference."""
    sizes, values = content["configuration"]["sizes"], Values(content["results"])
    names = values.present(STUMPS, sizes, mine(values))
    panels, n_sets = {}, 0
    for measure, title in TITLES.items():
        found = values.common(names, sizes, measure)
        n_sets = next(iter(found.values())).shape[1]
        panels[title] = mean_ranks({w: f.mean(axis=0) for w, f in found.items()})
    draw(panels, critical_difference(len(names), n_sets), path, bold=mine(values))
