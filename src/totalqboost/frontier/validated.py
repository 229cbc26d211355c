"""A frontier whose l1 price is chosen anew for every size, by cross-validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from totalqboost.boosting import Engine, Event, FoldDone, SizePoint, every_size
from totalqboost.dictionaries.base import Dictionary, Oracle
from totalqboost.examples import Examples
from totalqboost.folds import check_groups, split
from totalqboost.frontier.measured import named_points, risk, with_held_out
from totalqboost.frontier.points import Frontier, FrontierPoint
from totalqboost.held_out import Measure
from totalqboost.interruption import unwrapped_interruption
from totalqboost.losses import Logistic, Loss
from totalqboost.selection import (
    Choice,
    Validated,
    check_scoring,
    cross_validate,
    score_folds,
)
from totalqboost.settings import Settings
from totalqboost.solving import Interrupted, SolverError

__all__ = ["CrossValidation", "Curves", "validated_frontier"]


@dataclass(frozen=True)
class CrossValidation:
    """How to cross-validate: folds, groups of rows, a score to choose by, parallel folds.

    Attributes
    ----------
    cv : int, splitter or iterable
        The folds, as in scikit-learn.
    groups : array, optional
        Rows of one group stay together.
    scoring : str or callable, optional
        A score of scikit-learn to choose by.
    n_jobs : int, optional
        Folds side by side.

    Examples
    --------
    >>> from totalqboost.frontier import CrossValidation
    >>> CrossValidation(cv=3).cv
    3
    """

    cv: Any = 5
    groups: Any = None
    scoring: Any = None
    n_jobs: int | None = None


@dataclass(frozen=True)
class Curves:
    """What cross-validation found: a curve over sizes for each choice."""

    validated: list[Validated]
    scores: list[Measure | None]
    chosen: np.ndarray  # place of the choice for every size


def validated_frontier(
    settings: Settings,
    dictionaries: Sequence[Dictionary],
    choices: Sequence[Choice],
    examples: Examples,
    how: CrossValidation,
    max_learners: int,
    rng: np.random.Generator,
    on_event: Event | None = None,
) -> tuple[Frontier, Curves]:
    """Choose a dictionary and an l1 price for every size, then search on all rows.

    Choices are made by out-of-fold log-loss; by error where the loss is not the logistic one,
    since its probabilities are not made for that; or by a score. At last weights are multiplied
    by the factor that makes the out-of-fold log-loss least.
    """
    scorer = check_scoring(how.scoring)
    groups = check_groups(how.groups, len(examples.table_labels))
    folds = split(how.cv, examples, groups)
    oracles = [settings.changed(dictionary=d).oracle(examples) for d in dictionaries]

    def tell(n_done: int, n_folds: int) -> None:
        if on_event is not None:
            on_event(FoldDone(n_done, n_folds))

    try:
        with unwrapped_interruption():
            found = cross_validate(
                settings,
                examples,
                oracles,
                folds,
                choices,
                max_learners,
                groups=None if groups is None else groups[examples.rows],
                n_jobs=how.n_jobs,
                on_fold=tell,
            )
    except KeyboardInterrupt:
        raise Interrupted(None) from None
    scores = [
        None if scorer is None else score_folds(scorer, v, examples, folds, settings.loss)
        for v in found
    ]
    criterion = [_criterion(v, s, settings) for v, s in zip(found, scores, strict=True)]
    curves = Curves(found, scores, _chosen(np.array(criterion), found))
    n_columns = max(oracle.n_columns for oracle in oracles)
    empty = Frontier((), examples.n_effective, n_columns)
    paths: dict[int, list[FrontierPoint]] = {}
    try:
        for place, points in _searched(
            settings, choices, curves, examples, oracles, max_learners, rng, on_event
        ):
            paths[place] = points
    except (Interrupted, SolverError) as stop:
        place, paths[place] = stop.result
        stop.result = _assembled(curves, paths, empty, examples)
        raise
    return _assembled(curves, paths, empty, examples), curves


def _searched(
    settings: Settings,
    choices: Sequence[Choice],
    curves: Curves,
    examples: Examples,
    oracles: Sequence[Oracle],
    max_learners: int,
    rng: np.random.Generator,
    on_event: Event | None,
) -> Iterator[tuple[int, list[FrontierPoint]]]:
    """Yield the path of every choice that some size made, the most wanted first.

    The first of a dictionary starts the others. What a search was stopped with is put into the
    result of the exception, in the same form.
    """
    places, n_sizes = np.unique(curves.chosen, return_counts=True)
    starts: dict[int, Sequence[SizePoint]] = {}
    for place in places[np.argsort(-n_sizes, kind="stable")].tolist():
        choice = choices[place]
        own = settings.changed(l1_penalty=choice.l1_penalty(examples.n_effective))
        engine = own.engine(examples, rng, oracles[choice.dictionary])
        before = [p.snapshot for p in starts.get(choice.dictionary, ()) if p.n_learners > 0]
        try:
            points = every_size(engine, max_learners, on_event, before)
        except (Interrupted, SolverError) as stop:
            stop.result = place, _named(stop.result, examples, own, engine)
            raise
        starts.setdefault(choice.dictionary, points)
        yield place, _named(points, examples, own, engine)


def _named(
    found: Sequence[SizePoint], examples: Examples, settings: Settings, engine: Engine
) -> list[FrontierPoint]:
    ensembles = settings.finished([p.ensemble for p in found], examples, engine.oracle)
    return list(named_points(found, examples, settings.loss, engine.terms.nu, ensembles))


def _criterion(validated: Validated, score: Measure | None, settings: Settings) -> np.ndarray:
    """Return what to keep low, for every size."""
    if score is not None:
        return -score.mean
    held_out = validated.held_out
    is_logistic = type(settings.loss) is Logistic or held_out.is_multiclass
    return held_out.log_loss.mean if is_logistic else held_out.error.mean


def _chosen(criterion: np.ndarray, found: Sequence[Validated]) -> np.ndarray:
    """Return the choice of least criterion for every size, of those that reach the size.

    A price that is too high for ensembles of some size reaches it in few folds, or in none.
    """
    sizes = np.arange(criterion.shape[1])
    reached = np.array(
        [np.mean([[e.n_learners for e in fold] == sizes for fold in v.ensembles], 0) for v in found]
    )
    is_reached = (reached >= 0.5) | (reached == reached.max(axis=0))
    chosen = np.argmin(np.where(is_reached, criterion, np.inf), axis=0)
    chosen[0] = chosen[1]  # no learner has the same intercept at any price
    return chosen


def _assembled(
    curves: Curves, paths: dict[int, list[FrontierPoint]], empty: Frontier, examples: Examples
) -> Frontier:
    """Return the points of every size that its own path has."""
    points, places, sizes = [], [], []
    for size, place in enumerate(curves.chosen):
        own = [p for p in paths.get(int(place), ()) if p.n_learners == size]
        if own:
            points.append(own[0])
            places.append(int(place))
            sizes.append(size)
    first = curves.validated[0].held_out
    rows = [curves.validated[c].held_out.scores[k] for c, k in zip(places, sizes, strict=True)]
    held_out = replace(first, scores=np.array(rows).reshape(-1, *first.scores.shape[1:]))
    scores = None
    if curves.scores[0] is not None:
        pairs = [(curves.scores[c], k) for c, k in zip(places, sizes, strict=True)]
        values = [(s.mean[k], s.se[k]) for s, k in pairs if s is not None]
        scores = Measure(*np.array(values).reshape(-1, 2).T)
    held_out, factors = held_out.calibrated()
    points = [
        _scaled(p, float(s), examples, first.loss) for p, s in zip(points, factors, strict=True)
    ]
    return with_held_out(replace(empty, points=tuple(points)), held_out, scores)


def _scaled(point: FrontierPoint, factor: float, examples: Examples, loss: Loss) -> FrontierPoint:
    """Return a point whose ensemble's weights are multiplied, with the risk that it has then."""
    ensemble = point.ensemble.scaled(factor)
    return replace(
        point, ensemble=ensemble, risk=risk(ensemble, examples, loss), calibration=factor
    )
