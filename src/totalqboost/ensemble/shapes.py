"""Shapes: what one feature contributes to the scores, as a function of its value.

A sum of weak classifiers of one feature each is a sum of functions of one feature (a generalised
additive model), f(x) = constant + sum_j s_j(x_j). The s_j say all there is to say of the ensemble.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from totalqboost.learners import Both, Constant, Feature, Stump, label_text

if TYPE_CHECKING:
    from totalqboost.ensemble.model import Ensemble

__all__ = ["Shape", "shape_of"]

MOST_BARS = 25  # categories that are drawn


@dataclass(frozen=True, eq=False)
class Shape:
    """s_j of one feature: a step function of a number, or a level for each category.

    Attributes
    ----------
    number : int
        Which feature.
    feature : Feature
        What it is.
    cuts : array of shape (n_cuts,)
        Thresholds, ascending; none for categories.
    levels : array of shape (n_cuts + 1, n_scores) or (n_categories, n_scores)
        Contribution to each score between the cuts (a value at a cut belongs to its left), or of
        each category. Two classes have one score, more have one each.
    other : array of shape (n_scores,)
        Contribution of a missing number, or of a category that training has not seen.

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump
    >>> from totalqboost.ensemble import shape_of
    >>> model = Ensemble((Stump(0, 40.0), Stump(0, 60.0, -1)), (0.7, 0.2), features=("age",))
    >>> shape_of(model, 0).cuts.tolist()
    [40.0, 60.0]
    """

    number: int
    feature: Feature
    cuts: np.ndarray
    levels: np.ndarray
    other: np.ndarray

    @property
    def is_categorical(self) -> bool:
        """Whether values are categories."""
        return self.feature.categories is not None

    @property
    def span(self) -> float:
        """How far the feature moves a score, from the lowest level to the highest."""
        every = self.levels if self.is_categorical else np.vstack([self.levels, self.other])
        return float(np.ptp(every, axis=0).max(initial=0.0))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the contributions of values of the internal table, (n_values, n_scores)."""
        x = np.asarray(x, dtype=float)
        every = np.vstack([self.levels, self.other])
        if self.is_categorical:
            is_known = (x >= 0) & (x < len(self.levels))
            return every[np.where(is_known, x, len(self.levels)).astype(int)]
        places = np.searchsorted(self.cuts, x)
        return every[np.where(np.isnan(x), len(self.levels), places)]

    def centred(self, x: np.ndarray) -> Shape:
        """Return the shape whose mean over these values is 0: heights are SHAP values then."""
        mean = self(x).mean(axis=0)
        return replace(self, levels=self.levels - mean, other=self.other - mean)

    def bars(self, most: int = MOST_BARS) -> tuple[np.ndarray, list[str], np.ndarray]:
        """Return the categories to draw: codes, names, and levels of shape (n_bars, n_scores).

        Of many those that differ most from the others; these have one bar, of code -1.
        """
        labels = self.feature.categories or ()
        codes = np.arange(len(labels))
        if len(labels) <= most:
            return codes, [label_text(label) for label in labels], self.levels
        middle = np.median(self.levels, axis=0)
        difference = np.abs(self.levels - middle).max(axis=1)
        first = np.argsort(-difference, kind="stable")[: most - 1]
        codes = np.sort(first[difference[first] > 0])
        names = [label_text(labels[code]) for code in codes]
        names.append(f"median of {len(labels) - len(codes)} others")
        return np.append(codes, -1), names, np.vstack([self.levels[codes], middle])


def shape_of(model: Ensemble, j: int) -> Shape:
    """Return the shape of feature j.

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump
    >>> from totalqboost.ensemble import shape_of
    >>> model = Ensemble((Stump(0, 40.0), Stump(0, 60.0, -1)), (0.7, 0.2), features=("age",))
    >>> shape = shape_of(model, 0)
    >>> shape.cuts.tolist(), shape.levels[:, 0].round(1).tolist()
    ([40.0, 60.0], [-0.5, 0.9, 0.5])
    """
    for learner in model.learners:
        if len(learner.features) != 1 and not isinstance(learner, Constant):
            raise TypeError(
                "ensemble must consist of weak classifiers of one feature each to have shapes, "
                f"got a {type(learner).__name__}"
            )
    pairs = zip(model.learners, model.weights, strict=True)
    own = [(h, w) for h, w in pairs if h.features == (j,)]
    alone = replace(
        model,
        learners=tuple(h for h, _ in own),
        weights=tuple(w for _, w in own),
        intercept=0.0,
        training=None,
    ).narrowed()
    feature = model.features[j] if model.features else Feature(f"x{j}")
    parts = [part for h, _ in own for part in (h.parts if isinstance(h, Both) else (h,))]
    cuts = np.unique([part.threshold for part in parts if isinstance(part, Stump)])
    if feature.categories is None:
        points = np.array([*cuts, np.inf, np.nan])
    else:
        points = np.array([*range(len(feature.categories)), -1.0])
    scores = alone.scores(points[:, None]).reshape(len(points), -1)
    return Shape(j, feature, cuts, scores[:-1], scores[-1])
