"""Probabilities from integer scores: a small table and straight lines between its entries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from totalqboost import losses
from totalqboost.ensemble import Ensemble
from totalqboost.export.c.forms import Plan

__all__ = ["probabilities"]

ONE = 2**15  # the probability 1
N_STEPS = 64
MULTINOMIAL = "multinomial"


def probabilities(plan: Plan, ensemble: Ensemble) -> tuple[list[str], str]:
    """Return the functions, and a sentence on how far they are off."""
    known = [MULTINOMIAL] if ensemble.is_multiclass else losses.names()
    if ensemble.loss not in known:
        raise ValueError(
            f"probabilities must be of a model whose loss is one of {known}, got {ensemble.loss!r}"
        )
    low, high = plan.weights.extremes
    if ensemble.is_multiclass:
        return _of_classes(plan, high - low)
    link = losses.get(ensemble.loss).link
    return _of_two(plan, max(-low, high), lambda f: np.asarray(link(f), dtype=float))


def _steps(plan: Plan, most: int, reach: float, n: int) -> tuple[int, int]:
    """Return the width of a step as a power of 2, and how many bits of it a product may have."""
    wanted = max(1.0, min(most, reach * plan.per_score) / n)
    shift = int(np.ceil(np.log2(wanted)))
    return shift, max(0, shift - 15)


def _of_two(
    plan: Plan, most: int, link: Callable[[np.ndarray], np.ndarray]
) -> tuple[list[str], str]:
    half = N_STEPS // 2
    reach = _reach(link)
    shift, lost = _steps(plan, most, reach, half)
    at = (np.arange(N_STEPS + 1) - half) * 2.0**shift / plan.per_score
    entries = np.round(link(at) * ONE).astype(int)
    fine = np.linspace(at[0], at[-1], 20_001)
    slope = float(np.abs(np.diff(link(fine))).max() / (fine[1] - fine[0]))
    # With an entry for each integer nothing is read between two of them.
    read = fine if shift else at
    between = float(np.abs(np.interp(read, at, entries / ONE) - link(read)).max())
    most_off = between + slope * plan.weights.error / plan.per_score + 2 / ONE
    name, x = plan.name, f"const {plan.input.c_type} *x"
    lines = [
        *_table(plan, entries),
        "",
        f"/* The probability of class 1, times {ONE}. */",
        f"static inline uint16_t {name}_probability({x})",
        "{",
        f"    const int32_t end = INT32_C({half}) * (INT32_C(1) << {shift});",
        f"    const int32_t s = (int32_t){name}_score(x);",
        "    const int32_t inside = (s < -end) ? -end : ((s >= end) ? (end - 1) : s);",
        "    const uint32_t place = (uint32_t)(inside + end);",
        f"    return {name}_between(place);",
        "}",
    ]
    lines[lines.index("") : lines.index("")] = ["", *_between(plan, shift, lost)]
    return lines, _sentence(most_off)


def _sentence(most_off: float) -> str:
    """Return how far probabilities may be off, rounded up."""
    digit = 10.0 ** np.floor(np.log10(most_off))
    return f"Probabilities are within {np.ceil(most_off / digit) * digit:.1g} of the library's."


def _reach(link: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the score beyond which probabilities are 0 and 1 to the last digit of the table."""
    scores = 2.0 ** np.arange(-6, 12, 0.25)
    done = np.flatnonzero(1.0 - link(scores) < 0.5 / ONE)
    return float(scores[done[0]]) if len(done) else float(scores[-1])


def _of_classes(plan: Plan, most: int) -> tuple[list[str], str]:
    """Return softmax by a table of exp(-d), d how far a score is below the highest."""
    shift, lost = _steps(plan, most, 12.0, 2 * N_STEPS)
    at = np.arange(2 * N_STEPS + 1) * 2.0**shift / plan.per_score
    entries = np.round(np.exp(-at) * ONE).astype(int)
    name, n, x = plan.name, plan.n_scores, f"const {plan.input.c_type} *x"
    step = float(at[1])
    rounded = 2 * plan.weights.error / plan.per_score
    between = 2 * step**2 / 8 if shift else 0.0
    most_off = between + rounded / 2 + 4 * n / ONE + n * float(np.exp(-at[-1]))
    lines = [
        *_table(plan, entries),
        "",
        *_between(plan, shift, lost),
        "",
        f"/* The probability of each of the {n} classes, times {ONE}. */",
        f"static inline void {name}_probabilities({x}, uint16_t *p)",
        "{",
        f"    {plan.sum_type} s[{n}];",
        f"    {plan.sum_type} best;",
        "    uint32_t total = 0U;",
        "    int c;",
        f"    {name}_scores(x, s);",
        "    best = s[0];",
        f"    for (c = 1; c < {n}; c++) {{",
        "        best = (s[c] > best) ? s[c] : best;",
        "    }",
        f"    for (c = 0; c < {n}; c++) {{",
        "        const uint32_t below = (uint32_t)(best - s[c]);",
        f"        const int is_near = below < (UINT32_C({2 * N_STEPS}) << {shift});",
        f"        p[c] = is_near ? {name}_between(below) : 0U;",
        "        total += p[c];",
        "    }",
        f"    for (c = 0; c < {n}; c++) {{",
        f"        p[c] = (uint16_t)(((uint32_t)p[c] * UINT32_C({ONE})) / total);",
        "    }",
        "}",
    ]
    return lines, _sentence(most_off)


def _table(plan: Plan, entries: np.ndarray) -> list[str]:
    head = f"static const uint16_t {plan.name}_curve[{len(entries)}] {plan.macro}_FLASH = {{"
    rows = [entries[k : k + 10] for k in range(0, len(entries), 10)]
    return [head, *(f"    {', '.join(f'{e}U' for e in row)}," for row in rows), "};"]


def _between(plan: Plan, shift: int, lost: int) -> list[str]:
    """Return the function that reads the table between two entries."""
    here = plan.read("U16", f"&{plan.name}_curve[place >> {shift}]")
    there = plan.read("U16", f"&{plan.name}_curve[(place >> {shift}) + 1U]")
    return [
        f"static inline uint16_t {plan.name}_between(uint32_t place)",
        "{",
        f"    const int32_t here = (int32_t){here};",
        f"    const int32_t there = (int32_t){there};",
        f"    const int32_t part = (int32_t)((place & ((UINT32_C(1) << {shift}) - 1U)) >> {lost});",
        f"    const int32_t more = ((there - here) * part) / (INT32_C(1) << {shift - lost});",
        "    return (uint16_t)(here + more);",
        "}",
    ]
