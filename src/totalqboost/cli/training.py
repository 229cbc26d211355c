"""Rows to train on, of a table in memory: what commands ask of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from totalqboost import TotalQBoostClassifier
from totalqboost.cli.honest import Errors, codes_of, errors_of, judged, mean_errors
from totalqboost.ensemble import Ensemble

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TrainingRows"]


@dataclass(frozen=True)
class TrainingRows:
    """What a model is trained on, in the words of the file: text columns are categories."""

    X: pd.DataFrame
    y: np.ndarray
    weight: np.ndarray | None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def labels(self) -> np.ndarray:
        """Labels of the rows, or numbers that stand for them, to deal out folds by."""
        return self.y

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the rows in what the model is given."""
        return np.arange(len(self.y))

    @property
    def settings(self) -> dict[str, Any]:
        """What the estimator must be told about the columns: types tell all."""
        return {}

    @cached_property
    def classes(self) -> list[Any]:
        """The labels, sorted."""
        return sorted(set(self.y.tolist()))

    @property
    def names(self) -> list[str]:
        """Those of the features."""
        return list(self.X.columns)

    @property
    def categorical(self) -> list[str]:
        """The features that are categories."""
        return [name for name in self.X if self.X[name].dtype == "category"]

    @property
    def text_columns(self) -> list[str]:
        """Those whose categories are texts."""
        from pandas.api.types import is_numeric_dtype

        own = {name: self.X[name].cat.categories.dtype for name in self.categorical}
        return [name for name, dtype in own.items() if not is_numeric_dtype(dtype)]

    def deciles(self) -> tuple[tuple[float, ...], ...]:
        """Return those of each column of numbers, of which some are known."""
        return tuple(_deciles(self.X[name]) for name in self.X)

    def errors(self, ensembles: Sequence[Ensemble]) -> list[tuple[float, float]]:
        """Return share of wrong labels and log-loss of each ensemble."""
        weight = np.ones(len(self)) if self.weight is None else self.weight
        found = []
        for ensemble in ensembles:
            codes = codes_of(self.y, ensemble.classes)
            own = errors_of(codes, ensemble.predict_proba(self.X), weight)
            found.append((own.error, own.log_loss))
        return found

    def measured(
        self,
        make: Callable[[], TotalQBoostClassifier],
        masks: Sequence[np.ndarray],
        on_fit: Callable[[int], None],
    ) -> Errors:
        """Fit a model for each mask to the other rows; compare what they say with the truth."""
        weight = np.ones(len(self)) if self.weight is None else self.weight
        codes = codes_of(self.y, self.classes)
        values = np.full((len(self), 2), np.nan)
        for number, mask in enumerate(masks, start=1):
            on_fit(number)
            model = make().fit(self.X[~mask], self.y[~mask], weight[~mask])
            probability = np.zeros((int(mask.sum()), len(self.classes)))  # 0 if it has no other row
            known = codes_of(model.classes_, self.classes)
            probability[:, known] = model.predict_proba(self.X[mask])
            values[mask] = judged(codes[mask], probability)
        seen = ~np.isnan(values[:, 0])
        return mean_errors(values[seen], weight[seen])


def _deciles(column: pd.Series) -> tuple[float, ...]:
    if column.dtype == "category" or column.isna().all():
        return ()
    return tuple(map(float, np.nanquantile(column, np.linspace(0, 1, 11))))
