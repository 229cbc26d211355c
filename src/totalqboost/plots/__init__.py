"""Pictures of models: error against size, the shape of one feature."""

from totalqboost.plots.frontier import FrontierDisplay, frontier_html, frontier_text
from totalqboost.plots.shapes import plot_shape

__all__ = ["FrontierDisplay", "frontier_html", "frontier_text", "plot_shape"]
