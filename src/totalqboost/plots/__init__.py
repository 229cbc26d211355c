"""Pictures of models: error against size, the shape of one feature, the rounds of a fit."""

from totalqboost.plots.frontier import FrontierDisplay, frontier_html, frontier_text
from totalqboost.plots.shapes import plot_shape
from totalqboost.plots.trace import plot_trace

__all__ = ["FrontierDisplay", "frontier_html", "frontier_text", "plot_shape", "plot_trace"]
