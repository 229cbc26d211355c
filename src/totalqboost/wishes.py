"""What a user asks of single features: what they cost, how many there may be, which way they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from totalqboost.learners import Feature
from totalqboost.parameters import check_integer

__all__ = ["FeatureWishes", "check_wishes"]


@dataclass(frozen=True)
class FeatureWishes:
    """As they were typed; names become features once the table is known."""

    costs: Any = None
    max_features: int | None = None
    monotonic: Any = None

    def prices(self, features: Sequence[Feature]) -> np.ndarray | None:
        """Return the cost of each feature, None if all are free."""
        if self.costs is None:
            return None
        costs = _per_feature("feature_costs", self.costs, features)
        if not (np.isfinite(costs).all() and (costs >= 0).all()):
            bad = float(costs[~(np.isfinite(costs) & (costs >= 0))][0])
            raise ValueError(f"feature_costs must be finite and >= 0, got {bad!r}")
        return costs if costs.any() else None

    def constrained(self, features: Sequence[Feature]) -> tuple[Feature, ...]:
        """Return the features with the way that they may go."""
        if self.monotonic is None:
            return tuple(features)
        ways = _per_feature("monotonic_cst", self.monotonic, features)
        found = []
        for feature, way in zip(features, ways, strict=True):
            if way not in (-1, 0, 1):
                raise ValueError(f"monotonic_cst must hold -1, 0 or 1, got {way!r}")
            if way != 0 and feature.categories is not None:
                raise ValueError(
                    f"monotonic_cst must be 0 for {feature.name!r}, whose categories have no order"
                )
            found.append(replace(feature, monotone=int(way)))
        return tuple(found)


def check_wishes(costs: Any, max_features: int | None, monotonic: Any) -> FeatureWishes:
    """Return the wishes; what depends on the table is checked when there is one."""
    if max_features is not None:
        check_integer("max_features", max_features, 1)
    return FeatureWishes(costs, max_features, monotonic)


def _per_feature(name: str, values: Any, features: Sequence[Feature]) -> np.ndarray:
    """Return one number per feature of a number for all, numbers in order, or some by name."""
    try:
        if isinstance(values, Mapping):
            places = {feature.name: j for j, feature in enumerate(features)}
            if unknown := [key for key in values if key not in places]:
                raise ValueError(
                    f"{name} must name columns of X, got {unknown[0]!r}; X has "
                    f"{', '.join(repr(key) for key in list(places)[:5])}"
                )
            found = np.zeros(len(features))
            for key, value in values.items():
                found[places[key]] = value
            return found
        array = np.asarray(values, dtype=float)
    except TypeError as error:
        raise TypeError(f"{name} must hold numbers, got {values!r}") from error
    if array.ndim == 0:
        return np.full(len(features), float(array))
    if array.shape != (len(features),):
        raise ValueError(
            f"{name} must have one value per column of X ({len(features)}), got {array.shape}"
        )
    return array
