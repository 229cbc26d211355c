"""Explanation: why rows got their scores, by weak classifier and by feature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from totalqboost.learners import Constant, Feature, Learner
from totalqboost.tables import Table, counted

__all__ = ["Explanation"]


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each weak classifier and each feature contributes to the scores of rows.

    Row i has the score ``base_values[i] + contributions[i].sum()``. Made by
    :meth:`totalqboost.Ensemble.explain`, which says what the contributions are compared with.
    Printed, one row gives the table of its weak classifiers, several rows a summary of their
    features; ``explanation[i]`` is the explanation of row i.

    Attributes
    ----------
    contributions : array of shape (n_rows, n_learners)
        What each weak classifier adds to the score. A constant adds nothing: it is a part of
        ``base_values``.
    base_values : array of shape (n_rows,)
        The score before any feature is looked at: the mean score of the background. It depends
        on the class that is explained, and on nothing else.
    scores : array of shape (n_rows,)
        As ``decision_function`` gives them for the class that is explained; that of the first of
        two classes is minus that of the second.
    probabilities : array of shape (n_rows,)
        Of the class that is explained; NaN if the loss is not one of the library's.
    votes : array of int8, shape (n_rows, n_learners)
        The answers of the weak classifiers: of two classes +1 is a vote for ``classes[1]``, of
        more it says that the condition holds.
    X : array or sparse matrix of shape (n_rows, n_features)
        The rows; categories are numbers of ``features[j].categories``.
    labels, predicted : arrays of int, shape (n_rows,)
        Which of the classes is explained, and which is predicted.
    learners, features, classes : tuples
        As in the ensemble; features without names are x0, x1, ...

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump
    >>> model = Ensemble((Stump(0, 40.0),), (0.7,), 0.1, features=("age",))
    >>> explained = model.explain([[50.0], [30.0]])
    >>> explained.scores.round(1).tolist()
    [0.8, -0.6]
    >>> explained.contributions.round(1).tolist()
    [[0.7], [-0.7]]
    """

    contributions: np.ndarray
    base_values: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray
    votes: np.ndarray
    X: Any
    labels: np.ndarray
    predicted: np.ndarray
    learners: tuple[Learner, ...]
    features: tuple[Feature, ...]
    classes: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, i: int | slice) -> Explanation:
        """Return the explanation of row i, or of a slice of rows."""
        rows = i if isinstance(i, slice) else [i]
        of_rows = ("contributions", "base_values", "scores", "probabilities", "votes", "X")
        own = {name: getattr(self, name)[rows] for name in (*of_rows, "labels", "predicted")}
        return replace(self, **own)

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    @property
    def base_value(self) -> float:
        """The base value of all rows, where one class is explained."""
        if len(set(self.labels.tolist())) != 1:
            raise ValueError(
                "base_value must be one for all rows, but several classes are explained, or "
                "none; use base_values, or explain(x, background, label=...)"
            )
        return float(self.base_values[0])

    @cached_property
    def feature_contributions(self) -> np.ndarray:
        """Contributions summed by feature, shape (n_rows, n_features): the SHAP values."""
        sums = np.zeros((len(self), len(self.features)))
        for learner, column in zip(self.learners, self.contributions.T, strict=True):
            if len(learner.features) == 1:
                sums[:, learner.features[0]] += column
            elif not isinstance(learner, Constant):
                raise TypeError(
                    "feature_contributions needs weak classifiers of one feature each, got a "
                    f"{type(learner).__name__}; use contributions"
                )
        return sums

    # -- for people --------------------------------------------------------------------

    def __repr__(self) -> str:
        rows, learners = len(self), len(self.learners)
        return f"<Explanation of {counted(rows, 'row')} by {counted(learners, 'weak classifier')}>"

    def __str__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> Table:
        return self._row_table() if len(self) == 1 else self._rows_table()

    @property
    def _is_multiclass(self) -> bool:
        return len(self.classes) > 2

    def _row_table(self) -> Table:
        """The stumps of one row, those of a feature together, heaviest first."""
        amounts = self.contributions[0]
        rows: list[tuple[str, ...]] = []
        bars: list[float | None] = []
        for members in sorted(self._groups, key=lambda members: -abs(amounts[members].sum())):
            members = sorted(members, key=lambda k: -abs(amounts[k]))
            total = float(amounts[members].sum())
            first = (f"{total:+.4g}", self._name(members[0]), self._value(members[0]))
            for k in members:
                rows.append((*first, f"{amounts[k]:+.4g}", self._condition(k), self._vote(k)))
                first = ("", "", "")
            bars += [total, *[None] * (len(members) - 1)]
        last = (
            ("condition", "holds") if self._is_multiclass else (f"{self.classes[1]!r} if", "votes")
        )
        header = ("contribution", "feature", "value", "part", *last)
        return Table(self._row_title(), header, rows, "rlrrll", bars)

    def _row_title(self) -> str:
        score, probability = self.scores[0], self.probabilities[0]
        label, answer = self.classes[self.labels[0]], self.classes[self.predicted[0]]
        of_label = f" of {label!r}" if self._is_multiclass or self.labels[0] == 0 else ""
        title = f"score {score:+.4g}{of_label}: {answer!r}"
        if not np.isnan(probability):
            title += f", probability of {label!r} {probability:.3f}"
        return f"{title}, base value {self.base_values[0]:+.4g}"

    def _rows_table(self) -> Table:
        """How much each feature moves the scores of many rows, heaviest first."""
        sums = [self.contributions[:, members].sum(axis=1) for members in self._groups]
        means = [float(np.abs(column).mean()) if len(self) else 0.0 for column in sums]
        order = sorted(range(len(sums)), key=lambda g: -means[g])
        rows = [
            (
                f"{means[g]:.4g}",
                self._name(self._groups[g][0]),
                f"{sums[g].min(initial=np.inf):+.4g}",
                f"{sums[g].max(initial=-np.inf):+.4g}",
                str(len(self._groups[g])),
            )
            for g in order
        ]
        header = ("mean |contribution|", "feature", "least", "greatest", "weak classifiers")
        return Table(
            self._rows_title(),
            header,
            rows if len(self) else (),
            "rlrrr",
            [means[g] for g in order],
        )

    def _rows_title(self) -> str:
        explained = sorted(set(self.labels.tolist()))
        title = counted(len(self), "row")
        if len(explained) > 1:
            return f"{title}, scores of the predicted classes"
        if not explained:
            return title
        if self._is_multiclass or explained == [0]:
            title += f", scores of {self.classes[explained[0]]!r}"
        return f"{title}, base value {self.base_value:+.4g}"

    @cached_property
    def _groups(self) -> list[list[int]]:
        """Weak classifiers of the same features together; constants look at nothing."""
        groups: dict[Any, list[int]] = {}
        for k, learner in enumerate(self.learners):
            if not isinstance(learner, Constant):
                # Names may be repeated, numbers of features are not.
                groups.setdefault(learner.features or learner, []).append(k)
        return list(groups.values())

    def _name(self, k: int) -> str:
        return self.learners[k].describe(self.features)[0]

    def _condition(self, k: int) -> str:
        return self.learners[k].describe(self.features)[1]

    def _value(self, k: int) -> str:
        features = self.learners[k].features
        return ", ".join(self.features[j].shown(float(self.X[0, j])) for j in features)

    def _vote(self, k: int) -> str:
        is_positive = self.votes[0, k] > 0
        if self._is_multiclass:
            return "yes" if is_positive else "no"
        return repr(self.classes[int(is_positive)])
