"""From an oracle and a solver to an ensemble: Algorithm 1, and the search beyond it."""

from __future__ import annotations

from totalqboost.boosting.algorithm import Rounds, boost
from totalqboost.boosting.columns import GeneratedColumns, Terms
from totalqboost.boosting.engine import Engine, next_column
from totalqboost.boosting.result import BoostingResult, Event, FoldDone, Progress, Round, Searched
from totalqboost.boosting.search import SizePoint, every_size, found_sizes, search
from totalqboost.boosting.support import Snapshot

__all__ = [
    "BoostingResult",
    "Engine",
    "Event",
    "FoldDone",
    "GeneratedColumns",
    "Progress",
    "Round",
    "Rounds",
    "Searched",
    "SizePoint",
    "Snapshot",
    "Terms",
    "boost",
    "every_size",
    "found_sizes",
    "next_column",
    "search",
]
