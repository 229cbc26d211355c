"""Cascades: detectors that reject most rows early, with a recall that is guaranteed."""

from totalqboost.cascade.estimator import CascadeClassifier, Certificate
from totalqboost.cascade.files import CascadeFileError
from totalqboost.cascade.model import Cascade, Stage

__all__ = ["Cascade", "CascadeClassifier", "CascadeFileError", "Certificate", "Stage"]
