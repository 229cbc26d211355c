"""Pictures of models: error against size, the shape of one feature, what a detector does."""

from totalqboost.plots.cascade import CascadeDisplay
from totalqboost.plots.frontier import FrontierDisplay, frontier_html, frontier_text
from totalqboost.plots.shapes import plot_shape

__all__ = ["CascadeDisplay", "FrontierDisplay", "frontier_html", "frontier_text", "plot_shape"]
