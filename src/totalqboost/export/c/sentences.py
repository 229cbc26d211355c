"""Sentences at the top of a header: for which inputs its labels are those of the library."""

from __future__ import annotations

import numpy as np

from totalqboost.ensemble import Ensemble
from totalqboost.ensemble.answers import winners
from totalqboost.export.c.forms import Plan
from totalqboost.export.c.inputs import Float32
from totalqboost.export.c.orders import Stages
from totalqboost.export.c.vectors import passing, twin_numbers

__all__ = ["about_labels", "about_rejections", "about_rows", "about_weights"]


def _which_inputs(plan: Plan) -> str:
    """Return what sentences on labels hold for."""
    if isinstance(plan.input, Float32):
        return "every input" if plan.input.has_missing else "every input without NaN"
    if getattr(plan.input, "scales", None):
        return "all inputs that their scales do not move over a threshold"
    return "every input of integers"


def about_weights(plan: Plan) -> str:
    """Return what integer weights do to labels."""
    proof, made = plan.weights.proof, plan.weights
    what = _which_inputs(plan)
    if proof.holds:
        return (
            f"Labels are those of the library for {what}: weights are integers, and all sums "
            "that can be reached were looked at."
        )
    if proof.but_ties:
        return (
            f"Labels are those of the library for {what}, but for scores that are 0 up to the "
            "rounding of doubles: these count as 0."
        )
    return (
        "Weights are rounded to integers: labels may differ from those of the library where "
        f"scores are within {made.error / plan.per_score:.2g} of a tie."
    )


def about_rejections(plan: Plan, is_exact: bool) -> str:
    if is_exact:
        what = _which_inputs(plan)
        return f"Rejections are those of the thresholds on scores for {what}, ties pass."
    return "Rejections may differ where scores are within rounding of a threshold."


def about_rows(plan: Plan, ensemble: Ensemble, X: np.ndarray, stages: Stages | None = None) -> str:
    """Return on how many of the given rows labels differ."""
    handed = plan.input.quantized(X)
    if stages is None:
        differ = winners(ensemble.scores(X)) != twin_numbers(plan, handed)
    else:
        differ = passing(ensemble, stages, X) != passing(ensemble, stages, handed, plan.input)
    return about_labels(differ)


def about_labels(differ: np.ndarray) -> str:
    n = int(differ.sum())
    return f"Labels differ from those of the library on {n} of {len(differ)} rows that were given."
