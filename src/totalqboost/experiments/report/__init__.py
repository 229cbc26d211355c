"""The report: a run as one HTML page that needs no network."""

from __future__ import annotations

from totalqboost.experiments.report.page import render
from totalqboost.experiments.report.run import FILES, Run, RunError, read_run

__all__ = ["FILES", "Run", "RunError", "read_run", "render"]
