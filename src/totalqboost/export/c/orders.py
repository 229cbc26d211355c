"""Functions that may stop early: after a rejection, or when no feature can change the label."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from totalqboost.ensemble import Ensemble
from totalqboost.export.c.forms import (
    Plan,
    Row,
    bracketed,
    loop,
    number,
    row_table,
    threshold_in_table,
)
from totalqboost.export.model import Sum, Term, sum_of
from totalqboost.learners import Constant

__all__ = ["Stages", "costs_of", "lazy", "rejecting", "stages_of"]


# -- rejections ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stages:
    """An ensemble in its own order, with a threshold after each weak classifier.

    Attributes
    ----------
    scores : Sum
        Terms in that order, without constants.
    partial : list of (int, float)
        For each weak classifier how many terms there are up to it, and the intercept with the
        constants up to it.
    thresholds : list of float
        A row is rejected (class 0) where its score so far is below.
    is_detector : bool
        Whether all that is not rejected is class 1; else scores above 0 are.
    """

    scores: Sum
    partial: list[tuple[int, float]]
    thresholds: list[float]
    is_detector: bool = False


def stages_of(ensemble: Ensemble, rejections: Sequence[float], is_detector: bool = False) -> Stages:
    """Return the stages of an exportable ensemble of two classes."""
    thresholds = [float(t) for t in rejections]
    if ensemble.is_multiclass:
        raise ValueError(f"rejections must be for two classes, got {ensemble.n_classes} classes")
    if len(thresholds) != ensemble.n_learners or any(map(math.isnan, thresholds)):
        raise ValueError(
            f"rejections must be one number for each of the {ensemble.n_learners} weak "
            f"classifiers, got {rejections!r}"
        )
    terms: list[Term] = []
    partial: list[tuple[int, float]] = []
    base = float(ensemble.intercept)
    learner: Any
    for learner, weight in zip(ensemble.learners, ensemble.weights, strict=True):
        if isinstance(learner, Constant):
            base += learner.polarity * float(weight)
        else:
            terms.append(Term(replace(learner, polarity=1), (learner.polarity * float(weight),)))
        partial.append((len(terms), base))
    # A detector's own "above 0" is about its last threshold: integers are chosen for that.
    last = thresholds[-1] if is_detector and thresholds else 0.0
    last = last if math.isfinite(last) else 0.0
    intercept = tuple(b - last for b in sum_of(ensemble).intercept)
    return Stages(Sum(intercept, tuple(terms)), partial, thresholds, is_detector)


def rejecting(
    plan: Plan, stages: Stages, limits: Sequence[int | None], is_table: bool
) -> list[str]:
    """Return the function that looks at one weak classifier after the other, or stops."""
    least, highest = plan.weights.extremes
    own = [least] * (len(plan.terms) + 1)  # the limit after n terms
    for (n, _), limit in zip(stages.partial, limits, strict=True):
        own[n] = max(own[n], least if limit is None else limit)
    start = plan.weights.start[0]
    rows: list[Row] = []
    after: list[int] = []
    tests = [plan.input.holds(term.condition) for term in plan.terms]
    # What holds for every input is added at the start, before limits that do not count it yet.
    early = sum(j[0] for j, test in zip(plan.weights.jumps, tests, strict=True) if test is True)
    start += early
    waiting = own[0] + early if own[0] > least else least
    for term, jumps, limit, test in zip(
        plan.terms, plan.weights.jumps, own[1:], tests, strict=True
    ):
        early -= jumps[0] if test is True else 0
        moved = min(limit + early, highest + 1) if limit > least else least
        if not isinstance(test, bool):
            rows.append((term.condition, jumps))
            after.append(moved)
        elif rows:
            after[-1] = max(after[-1], moved)
        else:
            waiting = max(waiting, moved)
    x, kind = f"const {plan.input.c_type} *x", plan.sum_type
    head = [f"static inline int {plan.name}_predict({x})", "{"]
    is_yes = stages.is_detector or start > 0
    if start < waiting or not rows:
        return [*head, "    (void)x;", f"    return {int(is_yes and start >= waiting)};", "}"]
    first = f"    {kind} s = {number(start)};"
    last = [f"    return {1 if stages.is_detector else '(s > 0) ? 1 : 0'};", "}"]
    fits = [threshold_in_table(plan, condition) is not None for condition, _ in rows]
    if is_table and all(fits) and len({plan.is_above(c) for c, _ in rows}) == 1 < len(rows):
        declared, lines = _rejecting_loop(plan, rows, after)
        return [*declared, "", *head, first, *lines, *last]
    body = [
        line for row, limit in zip(rows, after, strict=True) for line in _stage(plan, row, limit)
    ]
    return [*head, first, *body, *last]


def _stage(plan: Plan, row: Row, limit: int) -> list[str]:
    jump = row[1][0]
    test = bracketed(str(plan.input.holds(row[0])))
    lines = [
        f"    if {test} {{",
        f"        s {'-' if jump < 0 else '+'}= {number(abs(jump))};",
        "    }",
    ]
    if limit > plan.weights.extremes[0]:
        lines += [f"    if (s < {number(limit)}) {{", "        return 0;", "    }"]
    return lines


def _rejecting_loop(
    plan: Plan, rows: Sequence[Row], after: Sequence[int]
) -> tuple[list[str], list[str]]:
    kind = "I16" if plan.sum_type == "int_fast16_t" else "I32"
    declared = row_table(plan, rows, {"limit": (kind, after)}, sign=1)
    row = f"{plan.name}_table[i]"
    check = [
        f"        if (s < {plan.read(kind, f'&{row}.limit')}) {{",
        "            return 0;",
        "        }",
    ]
    lines = loop(plan, rows)
    return declared, [*lines[:-1], *check, lines[-1]]


# -- features that are expensive -------------------------------------------------------------


def costs_of(ensemble: Ensemble, costs: Any) -> np.ndarray:
    """Return the cost of each feature, 1 where nothing is said."""
    n = len(ensemble.features)
    if costs is None:
        return np.ones(n)
    if not isinstance(costs, Mapping):
        found = np.array(costs, dtype=float)
        if found.shape != (n,):
            raise ValueError(f"feature_costs must have one number per feature ({n}), got {costs!r}")
    else:
        found = np.ones(n)
        names = {feature.name: j for j, feature in enumerate(ensemble.features)}
        for key, cost in costs.items():
            place = names.get(key, key)
            if not isinstance(place, int) or not 0 <= place < n:
                raise ValueError(f"feature_costs must name features of the model, got {key!r}")
            found[place] = cost
    if not (np.isfinite(found) & (found > 0)).all():
        raise ValueError(f"feature_costs must be finite and > 0, got {costs!r}")
    return found


def lazy(plan: Plan, costs: np.ndarray) -> list[str]:
    """Return the function that asks for features one at a time, and stops when it is sure."""
    plan = replace(plan, input=replace(plan.input, element="x{}"))
    start, rows = plan.rows()
    order = _order(rows, costs)
    kind, c_type = plan.sum_type, plan.input.c_type
    feature = f"{c_type} (*feature)(void *context, unsigned int index)"
    lines = [
        "/* Asks for features only as long as they can change the label. */",
        f"static inline int {plan.name}_predict_lazy({feature}, void *context)",
        "{",
        f"    {kind} s = {number(start[0])};",
        *(f"    {c_type} x{j};" for j in order),
        *([] if order else ["    (void)feature;", "    (void)context;"]),
    ]
    seen: set[int] = set()
    for j in order:
        seen.add(j)
        own = [row for row in rows if j in row[0].features and seen >= set(row[0].features)]
        rest = [row[1][0] for row in rows if not seen >= set(row[0].features)]
        lines.append(f"    x{j} = feature(context, {j}U);")
        for condition, jumps in own:
            test = bracketed(str(plan.input.holds(condition)))
            sign = "-" if jumps[0] < 0 else "+"
            lines += [f"    if {test} {{", f"        s {sign}= {number(abs(jumps[0]))};", "    }"]
        low, high = sum(min(jump, 0) for jump in rest), sum(max(jump, 0) for jump in rest)
        if rest and own:
            lines += [f"    if (s > {number(-low)}) {{", "        return 1;", "    }"]
            lines += [f"    if (s <= {number(-high)}) {{", "        return 0;", "    }"]
    return [*lines, "    return (s > 0) ? 1 : 0;", "}"]


def _order(rows: Sequence[Row], costs: np.ndarray) -> list[int]:
    """Return the features, those first that move the score most for their cost."""
    moved: dict[int, float] = {}
    for condition, jumps in rows:
        for j in condition.features:
            moved[j] = moved.get(j, 0.0) + abs(jumps[0]) / len(condition.features)
    return sorted(moved, key=lambda j: (-moved[j] / costs[j], j))
