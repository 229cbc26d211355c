"""A frontier whose l1 price is chosen anew for every size, by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from totalqboost.boosting import Event, FoldDone, SizePoint, every_size
from totalqboost.dictionaries.base import Dictionary
from totalqboost.examples import Examples
from totalqboost.frontier.measured import named_points, with_held_out
from totalqboost.frontier.points import Frontier, FrontierPoint
from totalqboost.held_out import Measure
from totalqboost.losses import Logistic, Loss
from totalqboost.selection import Choice, Validated, cross_validate, score_folds, split
from totalqboost.settings import Settings
from totalqboost.solving import Interrupted

__all__ = ["CrossValidation", "Curves", "validated_frontier"]


@dataclass(frozen=True)
class CrossValidation:
    """How to cross-validate: folds, groups of rows, a score to choose by, parallel folds."""

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
    oracles = [settings.changed(dictionary=d).oracle(examples) for d in dictionaries]
    groups = None if how.groups is None else np.asarray(how.groups)[examples.rows]
    folds = split(how.cv, examples, groups)

    def tell(n_done: int, n_folds: int) -> None:
        if on_event is not None:
            on_event(FoldDone(n_done, n_folds))

    found = cross_validate(
        settings,
        examples,
        oracles,
        folds,
        choices,
        max_learners,
        groups=groups,
        n_jobs=how.n_jobs,
        on_fold=tell,
    )
    scores = [score_folds(how.scoring, v, examples, folds, settings.loss) for v in found]
    criterion = [_criterion(v, s, settings) for v, s in zip(found, scores, strict=True)]
    curves = Curves(found, scores, _chosen(np.array(criterion), found))
    paths: dict[int, list[FrontierPoint]] = {}
    starts: dict[int, Sequence[SizePoint]] = {}
    stop: Interrupted | None = None
    for place in np.unique(curves.chosen):
        choice = choices[place]
        own = settings.changed(l1_penalty=choice.l1_penalty(examples.n_effective))
        engine = own.engine(examples, rng, oracles[choice.dictionary])
        before = [p.snapshot for p in starts.get(choice.dictionary, ()) if p.n_learners > 0]
        try:
            points = every_size(engine, max_learners, on_event, before)
        except Interrupted as interruption:
            points, stop = interruption.result, interruption
        starts.setdefault(choice.dictionary, points)
        paths[int(place)] = list(named_points(points, examples, settings.loss, engine.terms.nu))
        if stop is not None:
            break
    n_columns = max(oracle.n_columns for oracle in oracles)
    empty = Frontier((), examples.n_effective, n_columns)
    front = _assembled(curves, paths, empty, examples)
    if stop is not None:
        stop.result = front
        raise stop
    return front, curves


def _criterion(validated: Validated, score: Measure | None, settings: Settings) -> np.ndarray:
    """Return what to keep low, for every size."""
    if score is not None:
        return -score.mean
    held_out = validated.held_out
    is_logistic = type(settings.loss) is Logistic
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
    return np.argmin(np.where(is_reached, criterion, np.inf), axis=0)


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
    held_out = replace(first, scores=np.array(rows).reshape(-1, len(first.y)))
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
    margins = examples.y * ensemble.decision_function(examples.X)
    risk = float(examples.weight @ loss.value(margins))
    return replace(point, ensemble=ensemble, risk=risk, calibration=factor)
