"""Learners with votes for several classes, as far as a search has to know of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from totalqboost.ensemble import Ensemble
from totalqboost.learners import Constant, Learner, Votes

__all__ = ["ensemble_of", "unvoted"]


def unvoted(learner: Learner) -> Learner:
    """Return the learner that all classes share, or the learner itself."""
    own: Learner = learner.learner if isinstance(learner, Votes) else learner
    return own


def ensemble_of(learners: Sequence[Learner], w: np.ndarray, is_free: np.ndarray) -> Ensemble:
    """Return the columns of positive weight; free constants become the intercept.

    A learner with votes has one weight per class: that of its column times the vote.
    """
    first = next((h for h in learners if isinstance(h, Votes)), None)
    if first is None:
        return Ensemble.from_columns(learners, w, is_free)
    intercept = np.zeros(len(first.votes))
    weights: dict[Learner, np.ndarray] = {}
    for learner, weight, free in zip(learners, w, is_free, strict=True):
        assert isinstance(learner, Votes)
        own, of_class = learner.learner, float(weight) * np.array(learner.votes, dtype=float)
        if free:
            assert isinstance(own, Constant)
            intercept += own.polarity * of_class
        elif weight > 0:
            weights[own] = weights.get(own, 0.0) + of_class
    kept = sorted(weights.items(), key=lambda item: -float(np.abs(item[1]).sum()))
    return Ensemble(
        tuple(learner for learner, _ in kept),
        tuple(tuple(of_class.tolist()) for _, of_class in kept),
        tuple(intercept.tolist()),
        tuple(range(len(intercept))),
        loss="multinomial",
    )
