"""The paper's twelve data sets, its published results, and generators for any size."""

from __future__ import annotations

from totalqboost.datasets.generators import (
    make_rare_event,
    make_ringnorm,
    make_twonorm,
    make_waveform,
)
from totalqboost.datasets.images import load_fashion_mnist
from totalqboost.datasets.shipped import DataFileError, load, names, paper_figure, paper_table

__all__ = [
    "DataFileError",
    "load",
    "load_fashion_mnist",
    "make_rare_event",
    "make_ringnorm",
    "make_twonorm",
    "make_waveform",
    "names",
    "paper_figure",
    "paper_table",
]
