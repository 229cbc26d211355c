"""The exact solver: branch and bound with bounds that hold in floating point."""

from __future__ import annotations

from totalqboost.solvers.exact.certificate import certify, certify_integers
from totalqboost.solvers.exact.search import Progress
from totalqboost.solvers.exact.techniques import Techniques
from totalqboost.solvers.exact.tree import BranchAndBound

__all__ = ["BranchAndBound", "Progress", "Techniques", "certify", "certify_integers"]
