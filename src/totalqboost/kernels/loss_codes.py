"""Losses as integer codes, for compiled loops; `totalqboost.losses` has the mathematics."""

from __future__ import annotations

CUSTOM = -1
EXPONENTIAL = 0
LOGISTIC = 1
SQUARED = 2
SMOOTHED_HINGE = 3

# Curvature that stands for none, outside the rounded corner of the smoothed hinge.
FLAT = 0.05

# exp(700) is about 1e304: beyond it a float64 overflows.
MAX_EXPONENT = 700.0
