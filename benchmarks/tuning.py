"""Were the default constants chosen well? Prices around them, on splits that nothing reports.

Splits 100 and later of the data sets of generalization.py, which reports splits 0 to 9. Two
questions: the prices of TotalQBoostClassifier (lambda and nu, both times n), and for
TotalQBoostClassifierCV the prices nu to choose among, with and without the factor that calibrates
scores. Lines are kept in --folder, as generalization.py does it: stop with Ctrl-C and go on with
the same command. ``--report`` measures nothing and writes benchmarks/results/tuning.json.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from common import save, table, verdict
from contenders import points_at
from generalization import CLIP, MAX_TEST, SIZES, complete, options, results_of
from generalization_report import TWO_THIRDS, absent
from generalization_values import Record, Values
from models import OWN, Contender, Found
from ranks import LEVEL, Versus, against
from stump_models import Task, of_ensemble

from totalqboost import TotalQBoostClassifier, TotalQBoostClassifierCV, selection
from totalqboost.penalties import AUTO_L1, AUTO_PRICE

FIRST_SPLIT = 100  # those before are for reports
N_SPLITS = 3
PRICES = (0.25, 0.5, 1.0, 2.0)  # lambda times n
L1_PRICES = (2.0, 4.0, 8.0)  # nu times n
GRIDS = ((4.0,), (2.0, 4.0, 8.0), (1.0, 2.0, 4.0, 8.0, 16.0))  # of nu times n
MEASURES = ("error", "log_loss")


# -- candidates -----------------------------------------------------------------------------


def cell(price: float, l1: float) -> str:
    return f"λn = {price:g}, νn = {l1:g}"


def offer(grid: Sequence[float], is_raw: bool = False) -> str:
    """Return the name of a choice among prices."""
    values = ", ".join(f"{l1:g}" for l1 in grid)
    return f"νn = {values}" + ("; raw" if is_raw else "")


def fits(task: Task, sizes: Sequence[int]) -> Found:
    """The default fit with other prices."""
    n = len(task.y)
    found: Found = {}
    for price in PRICES:
        for l1 in L1_PRICES:
            model = TotalQBoostClassifier(
                cardinality_penalty=price / n, l1_penalty=l1 / n, random_state=0
            )
            found[cell(price, l1)] = {OWN: of_ensemble(model.fit(task.X, task.y).ensemble_)}
    return found


def cross_validations(task: Task, sizes: Sequence[int]) -> Found:
    """The default cross-validation with other prices to choose among.

    Raw scores are those before the factor. It changes no label, so that size and error are equal.
    """
    found: Found = {}
    for grid in GRIDS:
        # A list of numbers would mean the same nu in folds, which have fewer rows.
        with patch.object(selection, "L1_FACTORS", factors(grid)):
            model = TotalQBoostClassifierCV(random_state=0).fit(task.X, task.y)
        points = points_at(model, sizes)
        found[offer(grid)] = {k: of_ensemble(p.ensemble) for k, p in points.items()}
        found[offer(grid, is_raw=True)] = {
            k: of_ensemble(p.ensemble.scaled(1.0 / p.calibration)) for k, p in points.items()
        }
    return found


def factors(grid: Sequence[float]) -> tuple[float, ...]:
    """Return multiples of the automatic price, the nearest to it first, as in the library."""
    multiples = [l1 / AUTO_L1 for l1 in grid]
    return tuple(sorted(multiples, key=lambda factor: (abs(math.log(factor)), factor)))


CANDIDATES: dict[str, Contender] = {"fit": fits, "CV": cross_validations}


# -- report ---------------------------------------------------------------------------------


def compared(
    values: Values, names: Sequence[str], default: str, sizes: Sequence[Any], measure: str
) -> dict[str, Versus]:
    """Return the default against each other setting, sets being the observations."""
    found = values.common(names, sizes, measure)
    others = {name: found[name].mean(axis=0) for name in names if name != default}
    return {v.name: v for v in against(found[default].mean(axis=0), others)}


def means(
    values: Values, names: Sequence[str], sizes: Sequence[Any], measure: str
) -> dict[str, float]:
    return {name: float(f.mean()) for name, f in values.common(names, sizes, measure).items()}


def settings_table(
    title: str, values: Values, names: Sequence[str], default: str, sizes: Sequence[Any]
) -> str:
    """Return all settings with their paired differences to the default."""
    versus = {m: compared(values, names, default, sizes, m) for m in MEASURES}
    mean = {m: means(values, names, sizes, m) for m in ("cuts", "calibration", *MEASURES)}
    rows = []
    for name in names:
        cells = [f"{mean['cuts'][name]:.1f}"]
        for measure, digits in zip(MEASURES, (2, 4), strict=True):
            cells.append(f"{mean[measure][name]:.{digits}f}")
            cells.append(_difference(versus[measure].get(name), digits))
        label = f"**{name}**" if name == default else name
        rows.append([label, *cells, f"{mean['calibration'][name]:.3f}"])
    header = [title, "stumps", "test error (%)", "minus the default's", "log-loss"]
    return table([*header, "minus the default's", "calibration error"], rows)


def _difference(versus: Versus | None, digits: int) -> str:
    """Return other minus default, with its standard error; a star where it is significant."""
    if versus is None:
        return "default"
    star = " *" if versus.p_adjusted <= LEVEL else ""
    return f"{0.0 - versus.mean:+.{digits}f} ± {versus.standard_error:.{digits}f}{star}"


def dominating(values: Values, names: Sequence[str], default: str) -> list[str]:
    """Return who has lower error and log-loss with no more stumps, whatever the noise."""
    mean = {m: means(values, names, [OWN], m) for m in ("cuts", *MEASURES)}
    return [
        name
        for name in names
        if mean["cuts"][name] <= mean["cuts"][default]
        and all(mean[m][name] < mean[m][default] for m in MEASURES)
    ]


def findings(values: Values, names: Sequence[str], default: str) -> list[str]:
    """Return in words what the tables of a default say for and against it."""
    better = dominating(values, names, default)
    said = f" ({'; '.join(better)})" if better else ""
    lines = [
        "- No other setting has a lower mean error and a lower mean log-loss with no more stumps: "
        f"{verdict(not better)}{said}."
    ]
    for measure, title in zip(MEASURES, ("error", "log-loss"), strict=True):
        versus = compared(values, names, default, [OWN], measure)
        ahead = [n for n, v in versus.items() if v.mean > 0 and v.p_adjusted <= LEVEL]
        said = f" ({'; '.join(ahead)})" if ahead else ""
        lines.append(
            f"- No other setting of any size has a significantly lower {title}: "
            f"{verdict(not ahead)}{said}."
        )
    return lines


def within_limit(values: Values, names: Sequence[str], default: str) -> list[str]:
    """Return whether the default is the best of the settings that are small enough."""
    cuts = means(values, names, [OWN], "cuts")
    small = [name for name in names if cuts[name] <= TWO_THIRDS]
    lines = []
    for measure, title in zip(MEASURES, ("error", "log-loss"), strict=True):
        mean = means(values, names, [OWN], measure)
        best = min(small, key=lambda name: mean[name], default=None)
        said = "" if best in (None, default) else f" ({best})"
        lines.append(
            f"- Of the settings with at most {TWO_THIRDS:.1f} stumps, two thirds of 20, the "
            f"default has the least {title}: {verdict(best == default)}{said}."
        )
    return lines


def render(content: Record) -> str:
    """Return all tables as Markdown."""
    results, configuration = content["results"], content["configuration"]
    values, sizes = Values(results), configuration["sizes"]
    cells = [cell(p, l1) for p in configuration["prices"] for l1 in configuration["l1_prices"]]
    grids = [offer(g, is_raw) for g in configuration["grids"] for is_raw in (False, True)]
    default_cell = cell(*configuration["default"])
    default_grid = offer(configuration["default_grid"])
    splits = results["splits"]
    lines = [
        f"{len(results['data'])} data sets, splits {splits[0]} to {splits[-1]}, at most "
        f"{configuration['rows']} training rows. Differences are means over sets ± standard "
        "errors; a star means significant by Wilcoxon's test after Holm's correction.",
        "",
        settings_table("`TotalQBoostClassifier`", values, cells, default_cell, [OWN]),
        "",
        *findings(values, cells, default_cell),
        *within_limit(values, cells, default_cell),
        "",
        settings_table("`TotalQBoostClassifierCV`", values, grids, default_grid, [OWN]),
        "",
        *findings(values, grids, default_grid),
        "",
        f"The same at equal size, means over k = {', '.join(str(k) for k in sizes)}:",
        "",
        settings_table("`TotalQBoostClassifierCV`", values, grids, default_grid, sizes),
    ]
    if results["fewer_splits"] or results["missing"]:
        lines += ["", "Not measured yet:", "", *absent(results)]
    return "\n".join(lines)


# -- command line ---------------------------------------------------------------------------


def parse(command_line: Sequence[str] | None = None) -> argparse.Namespace:
    parser = options(__doc__, "tuning", range(FIRST_SPLIT, FIRST_SPLIT + N_SPLITS))
    arguments = parser.parse_args(command_line)
    reporting = [number for number in arguments.splits if number < FIRST_SPLIT]
    if reporting:
        parser.error(f"--splits must be >= {FIRST_SPLIT}, got {reporting[0]}: those before report")
    unknown = [name for name in arguments.again if name not in CANDIDATES]
    if unknown:
        parser.error(f"--again must be among {', '.join(CANDIDATES)}, got {', '.join(unknown)}")
    arguments.contenders, arguments.studies = list(CANDIDATES), False
    complete(arguments, "tuning")
    return arguments


def main() -> None:
    arguments = parse()
    results = results_of(arguments, CANDIDATES)
    if results is None:
        return
    configuration = {
        "rows": arguments.rows,
        "max_test": MAX_TEST,
        "sizes": SIZES,
        "clip": CLIP,
        "prices": PRICES,
        "l1_prices": L1_PRICES,
        "grids": GRIDS,
        "default": (AUTO_PRICE, AUTO_L1),
        "default_grid": sorted(AUTO_L1 * factor for factor in selection.L1_FACTORS),
    }
    print(render(save("tuning", arguments, configuration, results)))


if __name__ == "__main__":
    main()
