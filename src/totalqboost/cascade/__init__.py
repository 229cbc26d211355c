"""Cascades: detectors that reject most rows early, with a recall that is guaranteed."""

from totalqboost.cascade.certificates import Certificate, Guarantee
from totalqboost.cascade.estimator import CascadeClassifier
from totalqboost.cascade.files import CascadeFileError
from totalqboost.cascade.model import Cascade, Stage

__all__ = [
    "Cascade",
    "CascadeClassifier",
    "CascadeFileError",
    "Certificate",
    "Guarantee",
    "Stage",
]
