"""Pictures of models: error against size, shapes, the rounds of a fit, what a detector does."""

from totalqboost.plots.cascade import CascadeDisplay
from totalqboost.plots.frontier import FrontierDisplay, frontier_html, frontier_text
from totalqboost.plots.shapes import plot_shape
from totalqboost.plots.trace import plot_trace

__all__ = [
    "CascadeDisplay",
    "FrontierDisplay",
    "frontier_html",
    "frontier_text",
    "plot_shape",
    "plot_trace",
]
