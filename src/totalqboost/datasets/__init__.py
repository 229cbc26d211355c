"""Generators of the benchmark problems of the paper that are defined by a distribution."""

from __future__ import annotations

from totalqboost.datasets.generators import make_ringnorm, make_twonorm, make_waveform

__all__ = ["make_ringnorm", "make_twonorm", "make_waveform"]
