"""TotalQBoost: the smallest boosted ensemble that does the job.

Boosting with a price per weak classifier, after Denchev et al., "Totally Corrective Boosting
with Cardinality Penalization". Start with :class:`TotalQBoostClassifier`.
"""

from __future__ import annotations

from importlib.metadata import version

from totalqboost import datasets, dictionaries, losses, solvers
from totalqboost.ensemble import Ensemble, EnsembleFileError
from totalqboost.estimator import TotalQBoostClassifier
from totalqboost.learners import Constant, Stump
from totalqboost.master import MasterProblem, Solution
from totalqboost.path import Frontier, frontier

__version__ = version("totalqboost")

__all__ = [
    "Constant",
    "Ensemble",
    "EnsembleFileError",
    "Frontier",
    "MasterProblem",
    "Solution",
    "Stump",
    "TotalQBoostClassifier",
    "datasets",
    "dictionaries",
    "frontier",
    "losses",
    "solvers",
]
