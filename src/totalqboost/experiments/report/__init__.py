"""The report: a run as one HTML page that needs no network."""

from __future__ import annotations

from totalqboost.experiments.report.page import render

__all__ = ["render"]
