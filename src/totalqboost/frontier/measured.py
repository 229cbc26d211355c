"""From ensembles of every size to a frontier: names, training errors, errors on other rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from totalqboost.boosting import SizePoint
from totalqboost.ensemble import Ensemble
from totalqboost.examples import Examples
from totalqboost.frontier.points import Frontier, FrontierPoint
from totalqboost.held_out import HeldOut, Measure
from totalqboost.losses import Loss
from totalqboost.multiclass import losses_of

__all__ = ["named_points", "on_rows", "risk", "with_held_out"]


def named_points(
    found: Sequence[SizePoint],
    examples: Examples,
    loss: Loss,
    nu: float,
    ensembles: Sequence[Ensemble],
) -> Iterator[FrontierPoint]:
    """Yield the points of a search, with training errors of its finished ensembles.

    ``nu`` is that of the search. A size whose last weights leave out a learner is not yielded.
    """
    before: SizePoint | None = None
    parts = 1 if examples.n_classes == 2 else examples.n_classes  # rows of each example
    for size, ensemble in zip(found, ensembles, strict=True):
        if before is not None and ensemble.n_learners < size.n_learners:
            continue
        penalty = np.nan
        if before is not None:
            n_more = size.n_learners - before.n_learners
            penalty = parts * (before.objective - size.objective) / n_more
        ensemble = ensemble.with_training(
            examples.X.shape,
            size.objective,
            size.bound,
            l1_penalty=parts * nu,
            max_learners=size.n_learners,
        )
        yield FrontierPoint(
            n_learners=ensemble.n_learners,
            risk=size.risk if parts == 1 else risk(ensemble, examples, loss),
            objective=parts * size.objective,
            bound=parts * size.bound,
            train_error=float(on_rows([ensemble], examples, loss).mean_error[0]),
            valid_error=np.nan,
            penalty=penalty,
            ensemble=ensemble,
            l1_penalty=parts * nu,
        )
        before = size


def on_rows(ensembles: Iterable[Ensemble], rows: Examples, loss: Loss) -> HeldOut:
    """Return what ensembles say about rows."""
    scores = np.array([rows.scores(ensemble) for ensemble in ensembles])
    number = np.arange(len(rows))
    return HeldOut(scores, rows.y, rows.weight, np.zeros_like(number), number, loss)


def with_held_out(front: Frontier, held_out: HeldOut, scores: Measure | None = None) -> Frontier:
    """Return the frontier with measures on rows that it was not trained on."""
    error, log_loss, auc = held_out.error, held_out.log_loss, held_out.auc
    points = [
        replace(
            point,
            valid_error=float(error.mean[i]),
            valid_error_se=float(error.se[i]),
            valid_log_loss=float(log_loss.mean[i]),
            valid_log_loss_se=float(log_loss.se[i]),
            valid_auc=float(auc.mean[i]),
            valid_auc_se=float(auc.se[i]),
        )
        for i, point in enumerate(front)
    ]
    return replace(front, points=tuple(points), held_out=held_out, scores=scores)


def risk(ensemble: Ensemble, examples: Examples, loss: Loss) -> float:
    """Return the mean loss of an ensemble; of more than two classes the multinomial one."""
    return float(examples.weight @ losses_of(examples.scores(ensemble), examples.y, loss))
