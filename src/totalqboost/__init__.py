"""TotalQBoost: the smallest boosted ensemble that does the job.

Boosting with a price per weak classifier, after Denchev et al., "Totally Corrective Boosting
with Cardinality Penalization". Start with :class:`TotalQBoostClassifier`.
"""

# ruff: noqa: E402  (Ctrl-C comes during the imports that take seconds)

from __future__ import annotations

from totalqboost.start import start_quietly

start_quietly()

from importlib.metadata import version

from totalqboost import datasets, dictionaries, export, losses, plots, solvers
from totalqboost.branch_price import BranchAndPrice, CertifiedEnsemble
from totalqboost.cascade import Cascade, CascadeClassifier, CascadeFileError
from totalqboost.ensemble import Ensemble, EnsembleFileError
from totalqboost.estimator import TotalQBoostClassifier
from totalqboost.estimator_cv import TotalQBoostClassifierCV
from totalqboost.explanation import Explanation
from totalqboost.frontier import Frontier, frontier
from totalqboost.learners import Constant, Stump
from totalqboost.master import MasterProblem
from totalqboost.problems import ProblemFileError, load_problem, save_problem
from totalqboost.solving import Interrupted, MasterSolver, Solution, SolverError, Status

__version__ = version("totalqboost")

__all__ = [
    "BranchAndPrice",
    "Cascade",
    "CascadeClassifier",
    "CascadeFileError",
    "CertifiedEnsemble",
    "Constant",
    "Ensemble",
    "EnsembleFileError",
    "Explanation",
    "Frontier",
    "Interrupted",
    "MasterProblem",
    "MasterSolver",
    "ProblemFileError",
    "Solution",
    "SolverError",
    "Status",
    "Stump",
    "TotalQBoostClassifier",
    "TotalQBoostClassifierCV",
    "datasets",
    "dictionaries",
    "export",
    "frontier",
    "load_problem",
    "losses",
    "plots",
    "save_problem",
    "solvers",
]
