"""Saved models: read for use on tables."""

from __future__ import annotations

from pathlib import Path

from totalqboost.cli.errors import reading
from totalqboost.ensemble import Ensemble, EnsembleFileError

__all__ = ["load_model", "used_features"]


def load_model(path: Path) -> Ensemble:
    """Read a model; a missing, damaged or foreign file is one sentence."""
    with reading(path, EnsembleFileError):
        return Ensemble.load(path)


def used_features(ensemble: Ensemble) -> list[int]:
    """Return the features that some weak classifier looks at; the others are not needed."""
    return list(ensemble.used_features)
