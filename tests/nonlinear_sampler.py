"""A sampler of nonlinear models that runs here: D-Wave's own are services."""

from __future__ import annotations

import numpy as np
from dwave.optimization import Model


class CoordinateSampler:
    """Random states and the given ones, improved one level at a time by the model itself.

    Like the samplers of Leap it leaves its answer in the states of the model.
    """

    parameters: dict[str, list[str]] = {"num_reads": [], "seed": []}  # noqa: RUF012

    def estimated_min_time_limit(self, model: Model) -> float:
        return 0.0

    def sample(self, model: Model, num_reads: int = 3, seed: int | None = None) -> Model:
        rng = np.random.default_rng(seed)
        k = next(model.iter_decisions())
        top = int(np.max(k.upper_bound()))
        given = [np.array(k.state(i)) for i in range(model.states.size())]
        drawn = [rng.integers(0, top + 1, size=k.size()) for _ in range(min(num_reads, 3))]
        found = [self._descend(model, k, levels, top) for levels in [*given, *drawn]]
        model.states.resize(len(found))
        for i, levels in enumerate(found):
            k.set_state(i, levels)
        return model

    def _descend(self, model: Model, k, levels: np.ndarray, top: int) -> np.ndarray:
        """Move to the best neighbour while that helps: one level up or down, to zero or top."""
        value = self._values(model, k, [levels])[0]
        while True:
            moves = [
                np.where(np.arange(len(levels)) == j, level, levels)
                for j in range(len(levels))
                for level in {0, max(0, levels[j] - 1), min(top, levels[j] + 1), top}
            ]
            values = self._values(model, k, moves)
            best = int(np.argmin(values))
            if not values[best] < value - 1e-12:
                return levels
            levels, value = moves[best], values[best]

    def _values(self, model: Model, k, states: list[np.ndarray]) -> np.ndarray:
        """Return the objective of each state, infinite where a constraint does not hold."""
        model.states.resize(len(states))
        for i, levels in enumerate(states):
            k.set_state(i, levels)
        with model.lock():
            return np.array(
                [
                    float(model.objective.state(i))
                    if all(bool(c.state(i)) for c in model.iter_constraints())
                    else np.inf
                    for i in range(len(states))
                ]
            )
