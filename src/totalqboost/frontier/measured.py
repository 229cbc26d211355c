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

__all__ = ["named_points", "on_rows", "with_held_out"]


def named_points(
    found: Sequence[SizePoint], examples: Examples, loss: Loss, nu: float
) -> Iterator[FrontierPoint]:
    """Yield the points of ensembles with names and training errors."""
    before: SizePoint | None = None
    for size in found:
        names = examples.classes, examples.features, loss.name
        ensemble = size.ensemble.with_names(*names)
        penalty = np.nan
        if before is not None:
            n_more = size.n_learners - before.n_learners
            penalty = (before.objective - size.objective) / n_more
        yield FrontierPoint(
            n_learners=size.n_learners,
            risk=size.risk,
            objective=size.objective,
            bound=size.bound,
            train_error=float(on_rows([ensemble], examples, loss).mean_error[0]),
            valid_error=np.nan,
            penalty=penalty,
            ensemble=ensemble,
            l1_penalty=nu,
        )
        before = size


def on_rows(ensembles: Iterable[Ensemble], rows: Examples, loss: Loss) -> HeldOut:
    """Return what ensembles say about rows."""
    scores = np.array([ensemble.decision_function(rows.X) for ensemble in ensembles])
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
