"""C: an ensemble as one header of C99 without dependencies, for devices of a few kilobytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from totalqboost.ensemble import Ensemble
from totalqboost.export.c.forms import Plan, ifs, packed, table
from totalqboost.export.c.header import header
from totalqboost.export.c.inputs import Float32, Input
from totalqboost.export.c.options import Options
from totalqboost.export.c.orders import Stages, costs_of, lazy, rejecting, stages_of
from totalqboost.export.c.plans import moved_to, plan_of, rejecting_plan
from totalqboost.export.c.probabilities import probabilities as probability_functions
from totalqboost.export.c.scales import input_of
from totalqboost.export.c.sentences import about_rejections, about_rows, about_weights
from totalqboost.export.c.vectors import chosen
from totalqboost.export.model import Sum, exportable, scaled_sum, training_words
from totalqboost.learners import Both, Missing, Stump

__all__ = ["has_missing", "to_c"]


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
        or ``ranges`` give features a scale; then labels may change, and the header says on how
        many of the rows.
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
        As ``Ensemble.predict`` takes it. Features that are no integers in it get a scale over
        their cuts, and labels are compared on it.
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
    options = Options(
        name,
        input,
        optimize,
        weights,
        missing,
        probabilities,
        rows,
        ranges,
        rejections,
        detector,
        early_exit,
        feature_costs,
        test_rows,
        notes,
    )
    return _text(exportable(model), options)


@dataclass(frozen=True, eq=False)
class Functions:
    """What predicts: the plan, lines of C, what they do to labels, and whether that is proved."""

    plan: Plan
    body: list[str]
    sentences: list[str]
    stages: Stages | None = None
    is_exact: bool = True


def _text(ensemble: Ensemble, options: Options) -> str:
    """Return the header of an exportable ensemble."""
    options.check_for(ensemble)
    X = None if options.rows is None else ensemble.checked_rows(options.rows, "rows")
    may_miss = has_missing(ensemble) if options.missing is None else bool(options.missing)
    own = input_of(options.name, ensemble, options.input, may_miss, X, options.ranges)
    make = _summing if options.rejections is None else _rejecting
    made = make(ensemble, own, options)
    plan, body, sentences = made.plan, made.body, made.sentences
    if options.probabilities:
        functions, sentence = probability_functions(plan, ensemble)
        body += ["", *functions]
        sentences.append(sentence)
    costs = costs_of(ensemble, options.feature_costs)
    if options.early_exit:
        body += ["", *lazy(plan, costs)]
    if X is not None:
        sentences.append(about_rows(plan, ensemble, X, made.stages))
    rows = options.test_rows
    tested = chosen(ensemble) if rows is None else ensemble.checked_rows(rows, "test_rows")
    noted = {**training_words(ensemble), **(options.notes or {})}
    return header(
        plan, ensemble, body, sentences, noted, tested if made.is_exact else None, made.stages
    )


def has_missing(ensemble: Ensemble) -> bool:
    """Whether values were missing in training, or a weak classifier asks for it."""
    parts = [part for h in ensemble.learners for part in getattr(h, "parts", (h,))]
    own = [ensemble.features[j] for j in ensemble.used_features]
    was = any(feature.has_missing for feature in own if feature.categories is None)
    return was or any(isinstance(part, Missing) for part in parts)


# -- functions -------------------------------------------------------------------------------


def _summing(ensemble: Ensemble, own: Input, options: Options) -> Functions:
    """Return the functions that sum everything."""
    scores, unit = scaled_sum(ensemble)
    scores = scores if own.has_missing else _without_missing(scores)
    plan = plan_of(own, ensemble, scores, options)
    plan = replace(plan, unit=unit)
    return Functions(plan, _sums(plan, options), [about_weights(plan)])


def _rejecting(ensemble: Ensemble, own: Input, options: Options) -> Functions:
    """Return the functions that may stop after each weak classifier."""
    assert options.rejections is not None
    stages = stages_of(ensemble, options.rejections, options.detector)
    if not own.has_missing:
        stages = replace(stages, scores=_without_missing(stages.scores))
    plan, limits, is_exact = rejecting_plan(own, ensemble, stages, options)
    last = limits[-1] if limits else None
    is_early = any(limit is not None for limit in limits[:-1])
    if options.detector and last is not None and not is_early:
        body = _sums(moved_to(plan, last), options)
    else:
        body = rejecting(plan, stages, limits, options.is_small)
    sentences = [] if options.detector else [about_weights(plan)]
    sentences.append(about_rejections(plan, is_exact))
    return Functions(plan, body, sentences, stages, is_exact)


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


def _sums(plan: Plan, options: Options) -> list[str]:
    """Return the functions that sum scores and find the class."""
    is_float = isinstance(plan.input, Float32)
    found: list[str] | None = None
    if options.is_small and plan.n_scores == 1 and plan.bits > 16 and is_float:
        found = packed(plan)
    if found is None:
        found = table(plan) if options.is_small else ifs(plan)
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
