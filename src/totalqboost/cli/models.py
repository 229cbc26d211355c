"""Saved models: read for use on tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from totalqboost.cli.errors import reading
from totalqboost.cli.table import Table
from totalqboost.ensemble import Ensemble, EnsembleFileError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["feature_columns", "load_model", "text_columns", "used_features"]


def load_model(path: Path) -> Ensemble:
    """Read a model; a missing, damaged or foreign file is one sentence."""
    with reading(path, EnsembleFileError):
        return Ensemble.load(path)


def used_features(ensemble: Ensemble) -> list[int]:
    """Return the features that some weak classifier looks at; the others are not needed."""
    return list(ensemble.used_features)


def text_columns(ensemble: Ensemble) -> list[str]:
    """Return the features whose categories are texts, to be read as they are written."""
    return [
        feature.name
        for feature in ensemble.features
        if any(isinstance(label, str) for label in feature.categories or ())
    ]


def feature_columns(table: Table, ensemble: Ensemble) -> pd.DataFrame:
    """Return the features in the order of the model, gaps for those it does not use."""
    import pandas as pd

    used = [ensemble.features[j] for j in used_features(ensemble)]
    table.require([feature.name for feature in used], "needed by the model")
    known = table.like({feature.name: feature.categories is not None for feature in used})
    gaps = pd.Series(np.nan, index=known.index)
    names = ensemble.feature_names
    columns = [known.get(name, gaps) for name in names]
    return pd.concat(columns, axis=1, keys=range(len(names))).set_axis(list(names), axis=1)
