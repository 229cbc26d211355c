"""Training of a cascade: one ensemble with a rejection trace, or stages after Viola and Jones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from totalqboost.cascade.model import NEVER, Cascade, Stage, in_order, partial_scores
from totalqboost.cascade.order import best_order
from totalqboost.cascade.traces import Traces, loosened
from totalqboost.ensemble import Ensemble
from totalqboost.learners import Constant
from totalqboost.notices import warn

__all__ = ["Rows", "Wish", "block_counts", "soft_cascade", "source_of", "staged_cascade"]

Trainer = Callable[[Any, np.ndarray, int | None], Ensemble]
MOST_IN_VAIN = 100_000  # fresh rows one after the other none of which passes
EARLY_SHARE = 0.2  # of the misses that are allowed, those before the last stage


@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows, and positives that were held out, in the form that learners look at."""

    X: Any
    y: np.ndarray
    held_out: Any


@dataclass(frozen=True, eq=False)
class Wish:
    """What thresholds have to obey: the recall, and the held-out positives that may be missed."""

    min_recall: float
    n_missed: int


# -- one ensemble --------------------------------------------------------------------------


def soft_cascade(
    rows: Rows, train: Trainer, wish: Wish, feature_costs: np.ndarray
) -> tuple[Cascade, int]:
    """Return one ensemble that may reject after each learner, and the misses it was allowed."""
    ensemble = _or_constant(train(rows.X, rows.y, None))
    partial = partial_scores(ensemble, rows.X)
    is_positive = rows.y > 0
    votes = np.diff(partial, axis=0, prepend=ensemble.intercept)
    reads = [learner.features for learner in ensemble.learners]
    order = best_order(votes, is_positive, reads, feature_costs, wish.min_recall)
    ensemble = in_order(ensemble, order)
    partial = partial_scores(ensemble, rows.X)
    traces = Traces(partial[:, is_positive], wish.min_recall)
    levels = np.sort(traces.levels(partial_scores(ensemble, rows.held_out)))
    thresholds = traces.thresholds(float(levels[wish.n_missed]))
    return Cascade((Stage(ensemble, loosened(thresholds, partial)),)), wish.n_missed


# -- stages --------------------------------------------------------------------------------


def staged_cascade(
    rows: Rows,
    train: Trainer,
    wish: Wish,
    sizes: Sequence[int],
    fresh: Callable[[], Iterator[Any]] | None,
) -> tuple[Cascade, int]:
    """Return stages, each trained on the negatives that those before it let pass.

    Each stage cuts the held-out positives that are left at an order statistic of its score: the
    statistically equivalent blocks of Tukey (see ``bounds``), of which ``n_missed + 1`` may be
    given away. What a stage is trained on depends on earlier cuts, which the theorem allows.
    """
    positives, negatives = rows.X[rows.y > 0], rows.X[rows.y < 0]
    n_wanted = negatives.shape[0]
    stages: list[Stage] = []
    held_out, n_given = rows.held_out, 0
    for number, (size, n_blocks) in enumerate(
        zip(sizes, block_counts(wish.n_missed + 1, len(sizes)), strict=True)
    ):
        if number:
            source = fresh() if fresh is not None else iter(())
            negatives = _hard(Cascade(tuple(stages)), negatives, source, n_wanted)
            if negatives.shape[0] == 0:
                break
        X = stacked([positives, negatives])
        y = np.repeat(np.array([1, -1], dtype=np.int8), [positives.shape[0], negatives.shape[0]])
        ensemble = _or_constant(train(X, y, size))
        scores = partial_scores(ensemble, held_out)[-1]
        order = np.argsort(scores, kind="stable")
        cut = float(scores[order[n_blocks - 1]])
        held_out, n_given = held_out[order[n_blocks:]], n_given + n_blocks
        (threshold,) = loosened(np.array([cut]), partial_scores(ensemble, X)[-1:])
        stages.append(Stage(ensemble, (*[NEVER] * (ensemble.n_learners - 1), threshold)))
    return Cascade(tuple(stages)), n_given - 1


def block_counts(n: int, n_stages: int) -> list[int]:
    """Return how many blocks each stage may give away: a few each, and the last one the rest."""
    if n_stages == 1:
        return [n]
    early = 1 + int(EARLY_SHARE * (n - n_stages) / (n_stages - 1))
    return [early] * (n_stages - 1) + [n - early * (n_stages - 1)]


def _hard(cascade: Cascade, known: Any, fresh: Iterator[Any], n_wanted: int) -> Any:
    """Return negatives that pass the cascade: of the known ones, then of fresh ones.

    Fresh ones may never end, so many in vain are the end: then fewer than 3 in ``MOST_IN_VAIN``
    rows pass, with confidence 0.95.
    """
    blocks, n_found, n_in_vain = [known[:0]], 0, 0
    for number, block in enumerate(chain([known], fresh)):
        passing = block[cascade.margins(block)[0] >= 0][: n_wanted - n_found]
        if passing.shape[0]:
            blocks.append(passing)
            n_found, n_in_vain = n_found + passing.shape[0], 0
        elif number:
            n_in_vain += block.shape[0]
        if n_found >= n_wanted:
            break
        if n_in_vain >= MOST_IN_VAIN:
            warn(
                f"negatives: {n_in_vain} rows in a row did not pass stage {len(cascade.stages)}, "
                f"so no more are read; {n_found} of {n_wanted} were found for the next stage"
            )
            break
    return stacked(blocks)


def source_of(negatives: Any, check: Callable[[Any], Any]) -> Callable[[], Iterator[Any]]:
    """Return what gives blocks of fresh negatives, checked, each time a stage asks.

    A callable is called each time; an iterator goes on where the stage before has stopped; a
    list begins anew; a table is one block.
    """
    if len(getattr(negatives, "shape", ())) == 2:
        negatives = [negatives]
    if not callable(negatives) and not isinstance(negatives, Iterable):
        raise ValueError(
            "negatives must be a table, an iterable of tables, or a callable that returns one, got "
            f"{type(negatives).__name__}"
        )

    def fresh() -> Iterator[Any]:
        blocks = negatives() if callable(negatives) else negatives
        for number, block in enumerate(blocks, 1):
            if getattr(block, "shape", (1,))[:1] == (0,) or (isinstance(block, list) and not block):
                raise ValueError(f"negatives must be blocks with rows, got none in block {number}")
            yield check(block)

    return fresh


def stacked(tables: Sequence[Any]) -> Any:
    """Return rows of several tables in one."""
    if any(sparse.issparse(table) for table in tables):
        return sparse.vstack(tables, format="csc")
    return np.vstack(tables)


def _or_constant(ensemble: Ensemble) -> Ensemble:
    """Return the ensemble; an empty one gets a learner that always agrees, and a warning."""
    if ensemble.n_learners:
        return ensemble
    warn("no weak classifier tells the two classes apart: the detector accepts every row")
    training = None if ensemble.training is None else ensemble.training.of_data()
    return replace(ensemble, learners=(Constant(1),), weights=(1.0,), training=training)
