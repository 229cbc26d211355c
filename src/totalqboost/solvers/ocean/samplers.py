"""Our two searches as ``dimod.Sampler``s: for any BQM, beside D-Wave's own.

The moves are flips of one bit. ``d`` holds the change of energy of every flip; after a flip of
bit k it is brought up to date by one row of the coupling matrix, so a move costs O(n).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import dimod
import numpy as np

from totalqboost.parameters import check_integer

__all__ = ["LocalSearchSampler", "TabuSearchSampler"]

IMPROVEMENT = 1e-12  # smaller gains are rounding


class _State:
    """One assignment of bits, its energy up to the offset, and the change by every flip."""

    def __init__(self, h: np.ndarray, J: np.ndarray, x: np.ndarray):
        self.J = J
        self.x = x.astype(float)
        self.energy = float(h @ self.x + 0.5 * self.x @ J @ self.x)
        self.d = (1 - 2 * self.x) * (h + J @ self.x)

    def flip(self, k: int) -> None:
        change = 1 - 2 * self.x[k]
        self.energy += self.d[k]
        self.x[k] += change
        flipped = -self.d[k]
        self.d += (1 - 2 * self.x) * self.J[k] * change
        self.d[k] = flipped


class _FlipSampler(dimod.Sampler, dimod.Initialized):
    """Reads from repeated searches by single flips."""

    own: ClassVar[dict[str, int | None]] = {}  # parameters of the search, with their defaults
    _search: Callable[..., np.ndarray]  # from a state to the best one that it finds
    parameters: dict[str, list[str]] = {}  # noqa: RUF012  (dimod's way to declare them)
    properties: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self) -> None:
        names = ["num_reads", "seed", "initial_states", "initial_states_generator", *self.own]
        self.parameters = {name: [] for name in names}
        self.properties = {"description": (type(self).__doc__ or "").splitlines()[0]}

    def sample(
        self,
        bqm: dimod.BinaryQuadraticModel,
        *,
        num_reads: int | None = None,
        seed: int | None = None,
        initial_states: Any = None,
        initial_states_generator: str = "random",
        **parameters: Any,
    ) -> dimod.SampleSet:
        """Return the result of one search per read.

        Parameters
        ----------
        bqm : dimod.BinaryQuadraticModel
            Model of either vartype.
        num_reads : int, optional
            One by default, or as many as there are initial states.
        seed, initial_states, initial_states_generator
            As in dwave-samplers.
        **parameters
            Those of the class.
        """
        settings = {name: parameters.pop(name, default) for name, default in self.own.items()}
        self.remove_unknown_kwargs(**parameters)
        for name, value in settings.items():
            if value is not None:
                check_integer(name, value, 0)
        parsed = self.parse_initial_states(
            bqm.binary,
            initial_states=initial_states,
            initial_states_generator=initial_states_generator,
            num_reads=num_reads,
            seed=seed,
        )
        order = list(bqm.variables)
        linear, (row, col, bias), _ = bqm.binary.to_numpy_vectors(variable_order=order)
        h, J = np.asarray(linear, dtype=float), np.zeros((len(order), len(order)))
        np.add.at(J, (row, col), bias)
        J += J.T
        states = parsed.initial_states
        values = states.record.sample[:, [states.variables.index(v) for v in order]]
        # A generator of its own for each read: more reads do not change the first ones.
        children = np.random.default_rng(seed).spawn(parsed.num_reads)
        found = np.empty((parsed.num_reads, len(order)), dtype=np.int8)
        for k, rng in enumerate(children):
            found[k] = self._search(_State(h, J, values[k]), rng, **settings)
        if bqm.vartype is dimod.SPIN:
            found = 2 * found - 1
        return dimod.SampleSet.from_samples_bqm((found, order), bqm)


class TabuSearchSampler(_FlipSampler):
    """Multistart tabu search over single flips, a budget in moves.

    New starts are made as in the iterated tabu search of Palubeckis (2006), by moves drawn from
    the five best, here from the point where the search stands.

    Parameters of ``sample`` are ``num_moves`` per read, by default 20 times the number of
    variables and at least 200, and ``tenure``, how long a flipped bit stays, by default
    min(20, a quarter of the variables).

    Examples
    --------
    >>> import dimod
    >>> from totalqboost.solvers.ocean import TabuSearchSampler
    >>> bqm = dimod.BQM({"a": -1.0, "b": -1.0}, {("a", "b"): 3.0}, 0.0, "BINARY")
    >>> TabuSearchSampler().sample(bqm, seed=1).first.energy
    np.float64(-1.0)
    """

    own: ClassVar[dict[str, int | None]] = {"num_moves": None, "tenure": None}

    def _search(
        self,
        state: _State,
        rng: np.random.Generator,
        num_moves: int | None = None,
        tenure: int | None = None,
    ) -> np.ndarray:
        n = len(state.x)
        n_moves = max(200, 20 * n) if num_moves is None else num_moves
        stay = min(20, n // 4) if tenure is None else tenure
        best, best_energy = state.x.copy(), state.energy
        until = np.zeros(n, dtype=int)
        t = since = 0
        while t < n_moves and n > 0:
            allowed = (until <= t) | (state.energy + state.d < best_energy - IMPROVEMENT)
            if allowed.any():
                k = int(np.argmin(np.where(allowed, state.d, np.inf)))
                state.flip(k)
                until[k] = t + 1 + stay + int(rng.integers(0, stay // 2 + 1))
            t += 1
            since += 1
            if state.energy < best_energy - IMPROVEMENT:
                best, best_energy, since = state.x.copy(), state.energy, 0
            elif since >= 10 * n:  # a new start: random moves among the five best
                for _ in range(min(n_moves - t, int(rng.integers(1, max(2, n // 2 + 1))))):
                    state.flip(int(rng.choice(np.argsort(state.d)[:5])))
                    t += 1
                until[:], since = 0, 0
        return best


class LocalSearchSampler(_FlipSampler):
    """Iterated local search over single flips: descend, perturb the best, descend again.

    The parameter of ``sample`` is ``num_perturbations``, 20 by default: how often the best
    state of a read is perturbed by two to four flips.

    Examples
    --------
    >>> import dimod
    >>> from totalqboost.solvers.ocean import LocalSearchSampler
    >>> bqm = dimod.BQM({"a": 1.0}, {("a", "b"): -3.0}, 0.0, "SPIN")
    >>> LocalSearchSampler().sample(bqm, seed=1).first.energy
    np.float64(-4.0)
    """

    own: ClassVar[dict[str, int | None]] = {"num_perturbations": 20}

    def _search(
        self, state: _State, rng: np.random.Generator, num_perturbations: int | None = None
    ) -> np.ndarray:
        n = len(state.x)
        best, best_energy = state.x.copy(), np.inf
        for number in range((num_perturbations or 0) + 1 if n > 0 else 0):
            flipped = rng.choice(n, size=min(n, int(rng.integers(2, 5))), replace=False)
            for k in flipped if number > 0 else ():
                state.flip(int(k))
            while (k := int(np.argmin(state.d))) >= 0 and state.d[k] < -IMPROVEMENT:
                state.flip(k)
            if state.energy < best_energy - IMPROVEMENT:
                best, best_energy = state.x.copy(), state.energy
            else:
                for j in np.flatnonzero(state.x != best):
                    state.flip(int(j))
        return best
