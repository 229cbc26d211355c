"""Plans: the smallest integers for weights that keep every label, and every rejection."""

from __future__ import annotations

from dataclasses import replace

from totalqboost.ensemble import Ensemble
from totalqboost.export.c.forms import Plan, packed_bits
from totalqboost.export.c.inputs import Float32, Input
from totalqboost.export.c.options import Options
from totalqboost.export.c.orders import Stages
from totalqboost.export.c.weights import Weights, integer_rejections, integer_weights
from totalqboost.export.model import Sum

__all__ = ["moved_to", "plan_of", "rejecting_plan"]


def plan_of(
    own: Input,
    ensemble: Ensemble,
    scores: Sum,
    options: Options,
    narrower: int = 0,
) -> Plan:
    """Choose the smallest integers that are proved to keep every label, or the widest.

    The first ``narrower`` widths are not looked at.
    """
    found: list[tuple[int, Weights]] = []
    is_near = options.probabilities
    is_packed = options.is_small and len(scores.intercept) == 1 and isinstance(own, Float32)
    room = packed_bits(scores.terms)
    for bits in options.widths[narrower:]:
        if bits == 24 and not (is_packed and room >= 24):
            continue
        limits = _limits(min(bits, room) if is_packed else bits)
        found.append((bits, integer_weights(scores, ensemble.features, *limits, is_near)))
        if found[-1][1].proof.holds:
            break
    best = [pair for pair in found if pair[1].proof.holds]
    best = best or [pair for pair in found if pair[1].proof.but_ties] or found[-1:]
    bits, made = best[0]
    is_shared = ensemble.is_multiclass and ensemble.is_shared
    return Plan(own.name, own, scores.terms, made, bits, is_shared)


def rejecting_plan(
    own: Input, ensemble: Ensemble, stages: Stages, options: Options
) -> tuple[Plan, list[int | None], bool]:
    """Choose the smallest integers that keep every rejection too, or the widest."""
    for narrower in range(len(options.widths)):
        plan = plan_of(own, ensemble, stages.scores, options, narrower)
        limits, is_exact = integer_rejections(
            stages.scores, ensemble.features, plan.weights, stages.partial, stages.thresholds
        )
        if is_exact:
            break
    return plan, limits, is_exact


def moved_to(plan: Plan, limit: int) -> Plan:
    """Return the plan with its scores moved, so that those from the limit on are above 0."""
    start = (plan.weights.start[0] - limit + 1,)
    return replace(plan, weights=replace(plan.weights, start=start))


def _limits(bits: int) -> tuple[int, int]:
    """Return how large sums and jumps may become."""
    if bits <= 16:
        return 2**15 - 1, 2 ** (bits - 1) - 1
    most = 2 ** (min(bits, 30) - 1) - 1
    return most, most
