"""What a user asks of single features: what they cost, how many there may be, which way they go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from totalqboost.learners import Feature
from totalqboost.parameters import check_integer, short

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
                raise ValueError(f"monotonic_cst must hold -1, 0 or 1, got {float(way):g}")
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
    named = _by_name(values)
    if named is not None:
        places = _places(name, [key for key, _ in named], features)
        array = np.zeros(len(features))
        array[places] = _numbers(name, [value for _, value in named])
        return array
    array = _numbers(name, values)
    if array.ndim == 0:
        return np.full(len(features), float(array))
    if array.shape != (len(features),):
        raise ValueError(
            f"{name} must have one value per column of X ({len(features)}), got {array.shape}"
        )
    return array


def _by_name(values: Any) -> list[tuple[Any, Any]] | None:
    """Return names and values of a dict, or of a Series that has names; None for all else."""
    if isinstance(values, Mapping):
        return list(values.items())
    if hasattr(values, "index") and hasattr(values, "items"):
        pairs = list(values.items())
        if any(isinstance(key, str) for key, _ in pairs):
            return pairs
    return None


def _places(name: str, keys: Sequence[Any], features: Sequence[Feature]) -> list[int]:
    """Return where the columns of these names are."""
    places = {feature.name: j for j, feature in enumerate(features)}
    own = Counter(feature.name for feature in features)
    for key, times in Counter(keys).items():
        if key not in places:
            raise ValueError(
                f"{name} must name columns of X, got {key!r}; X has "
                f"{', '.join(repr(known) for known in list(places)[:5])}"
            )
        if times > 1 or own[key] > 1:
            where = name if times > 1 else "X"
            raise ValueError(
                f"{name} must name columns of X that are there once, got {key!r}, which {where} "
                "has more than once; give one value per column instead"
            )
    return [places[key] for key in keys]


def _numbers(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind in "biuf" and not isinstance(values, bool):
        return array.astype(float)
    try:
        if array.dtype.kind != "O" or any(isinstance(value, str) for value in array.flat):
            raise ValueError
        return array.astype(float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold numbers, got {short(values)}") from None
