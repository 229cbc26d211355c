"""The frontier of error against size: one small ensemble for every number of learners."""

from __future__ import annotations

from totalqboost.frontier.build import frontier
from totalqboost.frontier.points import Frontier, FrontierPoint
from totalqboost.frontier.validated import CrossValidation, validated_frontier

__all__ = ["CrossValidation", "Frontier", "FrontierPoint", "frontier", "validated_frontier"]
