"""The detector of the paper (Results on Project Glass), on images that everybody can have."""

from totalqboost.experiments.glass.bench import GlassSettings
from totalqboost.experiments.glass.methods import METHODS
from totalqboost.experiments.glass.run import GlassTask, read_results, run_glass
from totalqboost.experiments.glass.summary import summary_of

__all__ = ["METHODS", "GlassSettings", "GlassTask", "read_results", "run_glass", "summary_of"]
