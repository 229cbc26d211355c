"""The frontier of error against size: one small ensemble for every number of learners."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from totalqboost.boosting.engine import PRECISE, Engine
from totalqboost.boosting.result import BoostingResult, Event, Round
from totalqboost.boosting.sizes import SizeSearch, unsigned
from totalqboost.boosting.support import Snapshot
from totalqboost.ensemble import Ensemble
from totalqboost.solving import Interrupted, Solution, SolverError, Status

__all__ = ["Frontier", "FrontierPoint"]
