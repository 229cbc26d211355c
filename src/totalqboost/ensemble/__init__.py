"""Ensemble: the immutable result of boosting. It predicts, prints and serialises."""

from totalqboost.ensemble.files import EnsembleFileError
from totalqboost.ensemble.model import Ensemble
from totalqboost.ensemble.points import Points
from totalqboost.ensemble.shapes import Shape, shape_of
from totalqboost.ensemble.training import Training
from totalqboost.tabular import distinct_names

__all__ = [
    "Ensemble",
    "EnsembleFileError",
    "Points",
    "Shape",
    "Training",
    "distinct_names",
    "shape_of",
]
