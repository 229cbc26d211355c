"""Cascade: ensembles that may say no after every weak classifier."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from totalqboost.cascade import files
from totalqboost.cascade.certificates import Guarantee
from totalqboost.cascade.files import CascadeFileError
from totalqboost.cascade.headers import header_of
from totalqboost.ensemble import Ensemble
from totalqboost.ensemble.rows import some_columns, table_of
from totalqboost.files import MOST_MODEL, parse_json, read_bytes, write_text
from totalqboost.learners import Feature

__all__ = ["NEVER", "Cascade", "Stage", "in_order", "partial_scores"]

NEVER = -np.inf  # a threshold that rejects nothing


@dataclass(frozen=True)
class Stage:
    """An ensemble, and after each of its learners the score below which a row is rejected.

    Attributes
    ----------
    ensemble : Ensemble
        Its learners are asked in the order they stand in.
    rejections : tuple of float
        A row is rejected as soon as the intercept and the votes so far sum to less than this;
        ``-inf`` rejects nothing. The last one decides what the stage lets pass.

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump
    >>> from totalqboost.cascade import Stage
    >>> model = Ensemble((Stump(0, 1.5), Stump(1, 0.0)), (0.7, 0.2), features=("age", "dose"))
    >>> Stage(model, (0.0, 0.6)).rejections
    (0.0, 0.6)
    """

    ensemble: Ensemble
    rejections: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rejections", tuple(float(t) for t in self.rejections))
        if self.ensemble.is_multiclass:
            raise ValueError(
                f"ensemble must have two classes to detect one, got {self.ensemble.n_classes}"
            )
        n_learners = self.ensemble.n_learners
        if len(self.rejections) != n_learners or n_learners == 0:
            raise ValueError(
                f"rejections must have one value for each learner ({n_learners}, at least one), "
                f"got {len(self.rejections)}"
            )
        if not all(t < np.inf for t in self.rejections) or self.threshold == NEVER:
            raise ValueError(
                "rejections must be numbers, the last one finite and the others perhaps -inf, "
                f"got {self.rejections}"
            )

    @property
    def threshold(self) -> float:
        """The last threshold, of the whole score."""
        return self.rejections[-1]


@dataclass(frozen=True)
class Cascade:
    """Stages in turn; what passes all of them is detected, as ``classes[1]``.

    A soft cascade has one stage that may reject after each weak classifier. The stages of Viola
    and Jones may reject after their last one.

    Attributes
    ----------
    stages : tuple of Stage
        In the order in which they are asked; all look at the same features.
    guarantee : Guarantee, optional
        The recall that thresholds were set for; it does not count in comparisons.

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump
    >>> from totalqboost.cascade import Cascade, Stage
    >>> model = Ensemble((Stump(0, 1.5), Stump(1, 0.0)), (0.7, 0.2), features=("age", "dose"))
    >>> cascade = Cascade((Stage(model, (0.0, 0.6)),))
    >>> margins, n_evaluated = cascade.evaluate([[1.0, 5.0], [2.0, -1.0], [2.0, 1.0]])
    >>> margins.round(1).tolist(), n_evaluated.tolist()
    ([-0.7, -0.1, 0.3], [1, 2, 2])
    """

    stages: tuple[Stage, ...]
    guarantee: Guarantee | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        if not self.stages:
            raise ValueError("stages must be at least one, got none")
        own = [(s.ensemble.classes, s.ensemble.features, s.ensemble.loss) for s in self.stages]
        if any(other != own[0] for other in own):
            raise ValueError("stages must have the same classes, features and loss")

    @property
    def classes(self) -> tuple[Any, ...]:
        """The two labels; the second is what is detected."""
        return self.stages[0].ensemble.classes

    @property
    def features(self) -> tuple[Feature, ...]:
        """The columns of X."""
        return self.stages[0].ensemble.features

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of X."""
        return self.stages[0].ensemble.feature_names

    @property
    def used_features(self) -> tuple[int, ...]:
        """The columns that some weak classifier looks at."""
        return tuple(sorted({j for stage in self.stages for j in stage.ensemble.used_features}))

    @property
    def n_learners(self) -> int:
        """Number of weak classifiers in all stages."""
        return sum(stage.ensemble.n_learners for stage in self.stages)

    def evaluate(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return margins and the numbers of weak classifiers that were asked.

        The margin of a row is its last score less the threshold it had to reach there: >= 0 for
        what is detected, < 0 for what is rejected.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
            As in :meth:`totalqboost.Ensemble.decision_function`.
        """
        if not sparse.issparse(X):
            X = table_of(X, self.features, self.used_features, "X")
        return self.margins(X)

    def margins(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Do the same for rows in the form that learners look at; nothing is checked."""
        margins, n_evaluated = np.zeros(X.shape[0]), np.zeros(X.shape[0], dtype=np.int64)
        alive = np.arange(X.shape[0])
        for stage in self.stages:
            model, rows = _looked_at(stage.ensemble, X if len(alive) == X.shape[0] else X[alive])
            scores = np.full(len(alive), float(model.intercept))
            for learner, weight, least in zip(
                model.learners, model.weights, stage.rejections, strict=True
            ):
                scores += weight * learner.predict(rows)
                n_evaluated[alive] += 1
                passes = scores >= least
                margins[alive] = scores - (least if least > NEVER else 0.0)
                if not passes.all():
                    alive, scores, rows = alive[passes], scores[passes], rows[passes]
        return margins, n_evaluated

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row."""
        return np.asarray(self.classes)[(self.evaluate(X)[0] >= 0).astype(int)]

    # -- files -------------------------------------------------------------------------

    def to_c(self, name: str = "detector", **options: Any) -> str:
        """Return the cascade as one header of C99: ``NAME_predict(x)`` is 1 for what is detected.

        ``options`` are those of :func:`totalqboost.export.to_c`: ``input``, ``optimize``, ...
        """
        return header_of(self._pairs(), name, self.guarantee, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the cascade as JSON."""
        write_text(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    def to_dict(self) -> dict[str, Any]:
        """Return the cascade as plain values, ready for JSON."""
        return files.content_of(self._pairs(), self.guarantee)

    def _pairs(self) -> list[tuple[Ensemble, tuple[float, ...]]]:
        return [(stage.ensemble, stage.rejections) for stage in self.stages]

    @classmethod
    def from_dict(cls, content: Any) -> Cascade:
        """Return the cascade that ``to_dict`` described; every value is checked."""
        stages = tuple(Stage(*stage) for stage in files.stages_of(content))
        return cls(stages, files.guarantee_of(content))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Cascade:
        """Read what :meth:`save` has written; every value is checked, nothing is executed."""
        try:
            return cls.from_dict(parse_json(read_bytes(path, MOST_MODEL)))
        except ValueError as e:  # of decoding, of JSON, or our own
            raise CascadeFileError(f"{os.fspath(path)}: cannot be read as a cascade: {e}") from e


def partial_scores(ensemble: Ensemble, X: Any) -> np.ndarray:
    """Return the scores after each learner, shape (n_learners, n_rows).

    Sums are made in the order of :meth:`Cascade.margins`, so that they are equal to the last bit.
    """
    model, rows = _looked_at(ensemble, X)
    scores = np.full(X.shape[0], float(model.intercept))
    partial = np.empty((model.n_learners, X.shape[0]))
    for k, (learner, weight) in enumerate(zip(model.learners, model.weights, strict=True)):
        scores += weight * learner.predict(rows)
        partial[k] = scores
    return partial


def _looked_at(ensemble: Ensemble, X: Any) -> tuple[Ensemble, Any]:
    """Return the ensemble and rows for it; of sparse ones only the columns that matter."""
    if not sparse.issparse(X):
        return ensemble, X
    return ensemble.narrowed(), some_columns(X, ensemble.used_features)


def in_order(ensemble: Ensemble, order: Iterable[int]) -> Ensemble:
    """Return the same ensemble with its learners in another order."""
    places = [int(k) for k in order]
    return replace(
        ensemble,
        learners=tuple(ensemble.learners[k] for k in places),
        weights=tuple(ensemble.weights[k] for k in places),
    )
