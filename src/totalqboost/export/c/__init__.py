"""C: an ensemble as one header of C99 without dependencies, for devices of a few kilobytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from totalqboost.ensemble import Ensemble
from totalqboost.export.c.forms import Plan, ifs, packed, packed_bits, table
from totalqboost.export.c.header import header
from totalqboost.export.c.inputs import Float32, Input
from totalqboost.export.c.orders import Stages, costs_of, lazy, rejecting, stages_of
from totalqboost.export.c.probabilities import probabilities as probability_functions
from totalqboost.export.c.scales import integers_for
from totalqboost.export.c.vectors import chosen, twin_numbers
from totalqboost.export.c.weights import Weights, integer_rejections, integer_weights
from totalqboost.export.model import (
    Sum,
    check_identifier,
    exportable,
    scaled_sum,
    training_words,
)
from totalqboost.learners import Both, Missing, Stump

__all__ = ["has_missing", "to_c"]

KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while alignas alignof and asm bitand bitor bool catch class compl constexpr decltype
delete explicit export false friend mutable namespace new noexcept not nullptr operator or private
protected public static_assert template this throw true try typeid typename using virtual wchar_t
xor
"""  # of C and of C++
WORDS = frozenset(KEYWORDS.split())
INPUTS = ("float32", "int16", "uint8")
AIMS = ("size", "speed")
WIDTHS = {"auto": (8, 16, 24, 32), "int8": (8,), "int16": (16,), "int32": (32,)}


def to_c(
    model: Any,
    *,
    name: str = "model",
    input: str = "float32",
    optimize: str = "size",
    weights: str = "auto",
    missing: bool | None = None,
    probabilities: bool = False,
    rows: Any = None,
    ranges: Mapping[Any, tuple[float, float]] | None = None,
    rejections: Sequence[float] | None = None,
    detector: bool = False,
    early_exit: bool = False,
    feature_costs: Any = None,
    test_rows: Any = None,
    notes: Mapping[str, Any] | None = None,
) -> str:
    """Return a model as one header of C99: ``NAME_predict(x)`` is the number of the class.

    The header needs ``stdint.h`` and ``string.h`` only, allocates nothing and uses no floating
    point: bits of floats are compared as integers. Weights are integers too, the smallest for
    which a search over all sums that inputs can reach proves that no label changes.

    Parameters
    ----------
    model : Ensemble, or a fitted classifier that has one
        What is exported.
    name : str
        Prefix of all names in the header.
    input : {"float32", "int16", "uint8"}
        What x holds. Thresholds are rounded down to single precision, which changes no label of
        float32 inputs. Integers are the numbers themselves (counts of a sensor) unless ``rows``
        or ``ranges`` say how wide a scale must be; then labels may change, and the header says
        on how many of the rows.
    optimize : {"size", "speed"}
        A table with a loop, or one comparison after another, those of a feature nested.
    weights : {"auto", "int8", "int16", "int32"}
        Integers for the weights: the smallest that are proved to keep every label, or of a given
        width. With uint8 inputs "auto" is "int8" unless probabilities are asked for.
    missing : bool, optional
        Whether values may be missing: NaN, or the least integer. By default they may if some
        were in training; if not, the header is shorter, and what it says of NaN is not defined.
    probabilities : bool
        Whether to add ``NAME_probability`` (``NAME_probabilities`` of more than two classes), by
        a table of 65 entries.
    rows : table, optional
        As ``Ensemble.predict`` takes it: gives scales of integers, and labels are compared on it.
    ranges : mapping of feature names or numbers to (low, high), optional
        Scales of integers; features that are not named are integers already.
    rejections : sequence of float, optional
        One for each weak classifier, in the order of the ensemble: class 0 as soon as the score
        so far, the intercept included, is below (a soft cascade).
    detector : bool
        Whether class 1 is what no rejection stops, whatever the sign of its score.
    early_exit : bool
        Whether to add ``NAME_predict_lazy``, which asks for features by a function, those first
        that move the score most for their cost, and stops when no other can change the label.
        It pays for features that are expensive to compute, and for them only.
    feature_costs : sequence of float, or mapping of names or numbers to float, optional
        What features cost there; 1 by default.
    test_rows : table, optional
        Rows for ``NAME_self_test``, which is there if ``NAME_SELF_TEST`` is defined; without
        them some rows near thresholds.
    notes : mapping of str to object, optional
        Lines for the comment at the top, after those on the training that the model knows of: the
        shape of the data, the objective and its certificate.

    Returns
    -------
    str
        The header.

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump
    >>> from totalqboost.export import to_c
    >>> model = Ensemble((Stump(0, 40.0), Stump(1, 1.8, -1)), (0.7, 0.5), 0.1, features=("a", "b"))
    >>> header = to_c(model, name="risk", optimize="speed")
    >>> print(header[header.index("    v = ") : header.index("    return s;")])
        v = risk_bits(x[0]);
        if ((int32_t)v > INT32_C(0x42200000)) {
            s -= 7;
        }
        v = risk_bits(x[1]);
        if ((int32_t)v > INT32_C(0x3fe66666)) {
            s += 5;
        }
    <BLANKLINE>
    """
    check_identifier(name, reserved=WORDS)
    if name.startswith("_"):
        raise ValueError(f"name must not begin with _, which compilers claim, got {name!r}")
    _check("input", input, INPUTS)
    _check("optimize", optimize, AIMS)
    _check("weights", weights, tuple(WIDTHS))
    if notes is not None and not isinstance(notes, Mapping):
        raise TypeError(f"notes must map names to what is noted, got {notes!r}")
    ensemble = exportable(model)
    _check_wishes(ensemble, input, probabilities, rows, ranges, rejections, early_exit)
    if detector and rejections is None:
        raise ValueError("detector must be False without rejections, got True")
    X = None if rows is None else ensemble.checked_rows(rows, "rows")
    may_miss = has_missing(ensemble) if missing is None else bool(missing)
    own = _input(name, ensemble, input, may_miss, X, ranges)
    stages = None if rejections is None else stages_of(ensemble, rejections, detector)
    scores, unit = scaled_sum(ensemble) if stages is None else (stages.scores, 1.0)
    scores = scores if may_miss else _without_missing(scores)
    widths = WIDTHS[weights]
    if weights == "auto" and (probabilities or input == "uint8"):
        widths = (16, 24, 32) if probabilities else (8,)  # scores are read, not labels only
    is_exact = True
    if stages is None:
        plan = replace(_plan(own, ensemble, scores, optimize, widths, probabilities), unit=unit)
        body = _sums(plan, optimize)
        sentences = [_about_weights(plan)]
    else:
        stages = replace(stages, scores=scores)
        plan, limits, is_exact = _rejecting_plan(own, ensemble, stages, optimize, WIDTHS[weights])
        last = limits[-1] if limits else None
        if detector and last is not None and not any(k is not None for k in limits[:-1]):
            body = _sums(_from_limit(plan, last), optimize)
        else:
            body = rejecting(plan, stages, limits, optimize == "size")
        sentences = [] if detector else [_about_weights(plan)]
        sentences.append(_about_rejections(plan, is_exact))
    if probabilities:
        functions, sentence = probability_functions(plan, ensemble)
        body += ["", *functions]
        sentences.append(sentence)
    if early_exit:
        body += ["", *lazy(plan, costs_of(ensemble, feature_costs))]
    if X is not None and stages is None:
        sentences.append(_about_rows(plan, ensemble, X))
    tested = (
        chosen(ensemble) if test_rows is None else ensemble.checked_rows(test_rows, "test_rows")
    )
    noted = {**training_words(ensemble), **(notes or {})}
    return header(plan, ensemble, body, sentences, noted, tested if is_exact else None, stages)


def _check(argument: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{argument} must be one of {list(known)}, got {value!r}")


def _check_wishes(
    ensemble: Ensemble,
    input: str,
    probabilities: bool,
    rows: Any,
    ranges: Any,
    rejections: Any,
    early_exit: bool,
) -> None:
    """Refuse what does not go together."""
    if ranges is not None and input == "float32":
        raise ValueError("ranges must be None for float32 inputs, which need no scale")
    if rejections is not None and (early_exit or probabilities):
        other = "early_exit" if early_exit else "probabilities"
        raise ValueError(f"{other} must be False with rejections, which stop before all is summed")
    if early_exit and ensemble.is_multiclass:
        raise ValueError(f"early_exit must be False for {ensemble.n_classes} classes")


def has_missing(ensemble: Ensemble) -> bool:
    """Whether values were missing in training, or a weak classifier asks for it."""
    parts = [part for h in ensemble.learners for part in getattr(h, "parts", (h,))]
    own = [ensemble.features[j] for j in ensemble.used_features]
    was = any(feature.has_missing for feature in own if feature.categories is None)
    return was or any(isinstance(part, Missing) for part in parts)


def _without_missing(scores: Sum) -> Sum:
    """Return the same sum where it says nothing of missing values."""
    terms = [replace(term, condition=_present(term.condition)) for term in scores.terms]
    return Sum(scores.intercept, tuple(terms))


def _present(condition: Any) -> Any:
    match condition:
        case Stump():
            return replace(condition, missing_above=False)
        case Both(first, second):
            return replace(condition, first=_present(first), second=_present(second))
    return condition


def _input(
    name: str,
    ensemble: Ensemble,
    input: str,
    has_missing: bool,
    X: np.ndarray | None,
    ranges: Any,
) -> Input:
    if input == "float32":
        return Float32(name, ensemble.features, has_missing)
    return integers_for(name, ensemble, input, has_missing, X, ranges)


# -- weights ---------------------------------------------------------------------------------


def _plan(
    own: Input,
    ensemble: Ensemble,
    scores: Sum,
    optimize: str,
    widths: Sequence[int],
    is_near: bool = False,
) -> Plan:
    """Choose the smallest integers that are proved to keep every label, or the widest."""
    found: list[tuple[int, Weights]] = []
    is_packed = optimize == "size" and len(scores.intercept) == 1 and isinstance(own, Float32)
    room = packed_bits(scores.terms)
    for bits in widths:
        if bits == 24 and not (is_packed and room >= 24):
            continue
        limits = _limits(min(bits, room) if is_packed else bits)
        found.append((bits, integer_weights(scores, ensemble.features, *limits, is_near)))
        if found[-1][1].proof.holds:
            break
    best = [pair for pair in found if pair[1].proof.holds]
    best = best or [pair for pair in found if pair[1].proof.but_ties] or found[-1:]
    bits, made = best[0]
    is_shared = ensemble.is_multiclass and ensemble.is_shared
    return Plan(own.name, own, scores.terms, made, bits, is_shared)


def _rejecting_plan(
    own: Input, ensemble: Ensemble, stages: Stages, optimize: str, widths: Sequence[int]
) -> tuple[Plan, list[int | None], bool]:
    """Choose the smallest integers that keep every rejection too, or the widest."""
    for start in range(len(widths)):
        plan = _plan(own, ensemble, stages.scores, optimize, widths[start:])
        limits, is_exact = integer_rejections(
            stages.scores, ensemble.features, plan.weights, stages.partial, stages.thresholds
        )
        if is_exact:
            break
    return plan, limits, is_exact


def _from_limit(plan: Plan, limit: int) -> Plan:
    """Return the plan with its scores moved, so that those from the limit on are above 0."""
    start = (plan.weights.start[0] - limit + 1,)
    return replace(plan, weights=replace(plan.weights, start=start))


def _limits(bits: int) -> tuple[int, int]:
    """Return how large sums and jumps may become."""
    if bits <= 16:
        return 2**15 - 1, 2 ** (bits - 1) - 1
    most = 2 ** (min(bits, 30) - 1) - 1
    return most, most


def _which_inputs(plan: Plan) -> str:
    """Return what sentences on labels hold for."""
    if isinstance(plan.input, Float32):
        return "every input" if plan.input.has_missing else "every input without NaN"
    if getattr(plan.input, "scales", None):
        return "all inputs that their scales do not move over a threshold"
    return "every input of integers"


def _about_weights(plan: Plan) -> str:
    """Return what integer weights do to labels."""
    proof, made = plan.weights.proof, plan.weights
    what = _which_inputs(plan)
    if proof.holds:
        return (
            f"Labels are those of the library for {what}: weights are integers, and all sums "
            "that can be reached were looked at."
        )
    if proof.but_ties:
        return (
            f"Labels are those of the library for {what}, but for scores that are 0 up to the "
            "rounding of doubles: these count as 0."
        )
    return (
        "Weights are rounded to integers: labels may differ from those of the library where "
        f"scores are within {made.error / plan.per_score:.2g} of a tie."
    )


def _about_rejections(plan: Plan, is_exact: bool) -> str:
    if is_exact:
        what = _which_inputs(plan)
        return f"Rejections are those of the thresholds on scores for {what}, ties pass."
    return "Rejections may differ where scores are within rounding of a threshold."


def _about_rows(plan: Plan, ensemble: Ensemble, X: np.ndarray) -> str:
    """Return on how many of the given rows labels differ."""
    scores = ensemble.scores(X)
    own = scores.argmax(axis=1) if ensemble.is_multiclass else (scores > 0).astype(int)
    handed = plan.input.quantized(X)
    n = int((own != twin_numbers(plan, handed)).sum())
    return f"Labels differ from those of the library on {n} of {len(X)} rows that were given."


# -- functions -------------------------------------------------------------------------------


def _sums(plan: Plan, optimize: str) -> list[str]:
    """Return the functions that sum scores and find the class."""
    is_float = isinstance(plan.input, Float32)
    found: list[str] | None = None
    if optimize == "size" and plan.n_scores == 1 and plan.bits > 16 and is_float:
        found = packed(plan)
    if found is None:
        found = ifs(plan) if optimize == "speed" else table(plan)
    return found if plan.n_scores == 1 else [*found, "", *_first_of_highest(plan)]


def _first_of_highest(plan: Plan) -> list[str]:
    return [
        f"static inline int {plan.name}_predict(const {plan.input.c_type} *x)",
        "{",
        f"    {plan.sum_type} s[{plan.n_scores}];",
        "    int best = 0;",
        "    int c;",
        f"    {plan.name}_scores(x, s);",
        f"    for (c = 1; c < {plan.n_scores}; c++) {{",
        "        if (s[c] > s[best]) {",
        "            best = c;",
        "        }",
        "    }",
        "    return best;",
        "}",
    ]
