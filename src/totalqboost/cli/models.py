"""Saved models: read for use on tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from totalqboost.cascade import Cascade, CascadeFileError
from totalqboost.cascade.files import FORMAT
from totalqboost.cli.errors import BadInput, reading
from totalqboost.cli.table import Table
from totalqboost.ensemble import Ensemble, EnsembleFileError
from totalqboost.files import MOST_MODEL, parse_json, read_bytes

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["feature_columns", "load_model", "text_columns"]


def load_model(path: Path) -> Ensemble | Cascade:
    """Read a model or a detector; a missing, damaged or foreign file is one sentence."""
    with reading(path, EnsembleFileError, CascadeFileError):
        return Cascade.load(path) if _is_detector(path) else Ensemble.load(path)


def _is_detector(path: Path) -> bool:
    """Whether the file says that it is one; what cannot be read is none."""
    try:
        content = parse_json(read_bytes(path, MOST_MODEL))
    except ValueError:
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


def text_columns(model: Ensemble | Cascade) -> list[str]:
    """Return the features whose categories are texts, to be read as they are written."""
    return [
        feature.name
        for feature in model.features
        if any(isinstance(label, str) for label in feature.categories or ())
    ]


def feature_columns(table: Table, model: Ensemble | Cascade) -> pd.DataFrame:
    """Return the features in the order of the model, gaps for those it does not use."""
    import pandas as pd

    used = [model.features[j] for j in model.used_features]
    counts = Counter(model.feature_names)
    twice = next((feature.name for feature in used if counts[feature.name] > 1), None)
    if twice is not None:
        raise BadInput(f"the model has several features named {twice!r}, so names are not enough")
    table.require([feature.name for feature in used], "needed by the model")
    known = table.like({feature.name: feature.categories is not None for feature in used})
    gaps = pd.Series(np.nan, index=known.index)
    names = model.feature_names
    columns = [known.get(name, gaps) for name in names]
    return pd.concat(columns, axis=1, keys=range(len(names))).set_axis(list(names), axis=1)
