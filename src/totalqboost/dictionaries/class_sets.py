"""Features that are more than numbers, shared between classes: sets of bins, and their votes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from totalqboost.dictionaries.special import Categories, Sets, SpecialFeature
from totalqboost.kernels.swaps import bin_sums
from totalqboost.learners import Learner, Votes

__all__ = ["SharedSets", "best_shared_sets", "class_bins", "sets_for_classes"]

N_DIRECTIONS = 2  # ways to set classes against each other by which categories are put in order


def class_bins(own: SpecialFeature, rows: np.ndarray, Q: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the sums of Q over rows (example, class), shape (n_bins, n_classes, width)."""
    bins = np.zeros((own.n_bins * n_classes, Q.shape[1]), Q.dtype)
    place = own.codes[rows // n_classes].astype(np.int64) * n_classes + rows % n_classes
    bin_sums(place, np.arange(len(rows)), Q, bins)
    return bins.reshape(own.n_bins, n_classes, -1)


def sets_for_classes(own: SpecialFeature, G: np.ndarray, H: np.ndarray) -> list[Sets]:
    """Return the sets to try, given slopes and curvatures (n_bins, n_classes).

    Categories are put in order by the directions among classes in which their slopes differ most.
    """
    if not isinstance(own, Categories):
        return [own.sets(G[:, 0], H[:, 0])]  # whatever they are
    G, H = G.astype(float), H.astype(float)
    strength = G / np.sqrt(np.maximum(H, 1e-300))
    strength[H.sum(axis=1) <= 0.0] = 0.0
    _, _, directions = np.linalg.svd(strength, full_matrices=False)
    return [own.sets(G @ d, H @ d**2) for d in directions[:N_DIRECTIONS]]


def best_shared_sets(
    own: SpecialFeature,
    bins: np.ndarray,
    by_edge: bool,
    nu: float,
    extra: float,
    exclude: Collection[Learner],
    n: int,
) -> list[tuple[float, Learner]]:
    """Return price and learner of the best n sets of a feature that are not excluded.

    ``bins`` holds slopes and curvatures, (n_bins, n_classes, 2). Prices are those of
    :func:`totalqboost.kernels.classes.price_of_votes`.
    """
    total = bins.sum(axis=0)
    found: dict[Learner, float] = {}
    for sets in sets_for_classes(own, bins[:, :, 0], bins[:, :, 1]):
        if not len(sets.extras):
            continue
        inside = sets.inside(bins.reshape(len(bins), -1)).reshape(-1, *total.shape)
        slopes = 2.0 * inside[:, :, 0] - total[:, 0]
        if by_edge:
            prices = np.abs(slopes).sum(axis=1)
        else:
            whole = np.maximum(total[:, 1], 1e-300)
            within, without = inside[:, :, 1], whole - inside[:, :, 1]
            slopes = slopes - (within - without) / whole * total[:, 0]
            spread = np.maximum(np.sum(4.0 * within * without / whole, axis=1), 1e-300)
            prices = 0.5 * np.maximum(np.abs(slopes).sum(axis=1) - nu, 0.0) ** 2 / spread
            prices = prices - extra * sets.extras
        for t in np.argsort(-prices, kind="stable")[: n + len(exclude)]:
            learner = sets.learner(int(t))
            if learner not in exclude:
                found.setdefault(learner, float(prices[t]))
    best = sorted(found.items(), key=lambda item: -item[1])[:n]
    return [(price, learner) for learner, price in best]


class SharedSets:
    """Sets of bins with votes, chosen anew by every pass.

    Parameters
    ----------
    own : sequence of SpecialFeature
        The features, with few sets each.
    n_classes : int
        Number of classes.
    has_curvature : bool
        Whether the second right-hand side of a pass is the curvature, of either sign: that of the
        intercept of a class.
    """

    def __init__(self, own: Sequence[SpecialFeature], n_classes: int, has_curvature: bool):
        self.own, self.n_classes, self.has_curvature = own, n_classes, has_curvature
        self.is_signed = np.zeros(0, dtype=bool)
        self.extras = self.features = np.zeros(0, dtype=int)
        self.votes = np.zeros((0, n_classes), np.int8)
        self._places: list[tuple[Sets, int]] = []
        self._tried: list[tuple[int, Sets, np.ndarray]] = []  # by feature, and which are kept

    def learner(self, s: int) -> Learner:
        """Return the learner of a set of the last pass, with its votes; the first is +1."""
        sets, t = self._places[s]
        return Votes(sets.learner(t), tuple(self.votes[s].tolist()))

    def sums(self, Q: np.ndarray, rows: np.ndarray, kept: Collection[Learner] = ()) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`; kept sets have zeros."""
        parts, votes, features, extras = [], [], [], []
        self._places, self._tried = [], []
        for own in self.own:
            bins = class_bins(own, rows, Q, self.n_classes)
            H = np.abs(bins[:, :, 1]) if self.has_curvature else np.ones(bins.shape[:2])
            held = [
                h.learner for h in kept if isinstance(h, Votes) and h.features == (own.feature,)
            ]
            for sets in sets_for_classes(own, bins[:, :, 0], H):
                part, sign = self._voted(sets, bins)
                is_kept = is_among(sets, own, held)
                part[is_kept] = 0.0
                self._tried.append((own.feature, sets, is_kept))
                parts.append(part)
                votes.append(sign)
                extras.append(sets.extras)
                features.append(np.full(len(part), own.feature))
                self._places += [(sets, t) for t in range(len(part))]
        self.votes, self.extras = np.concatenate(votes), np.concatenate(extras)
        self.features = np.concatenate(features)
        self.is_signed = np.full(len(self.features), True)
        return np.concatenate(parts)

    def edges(self, values: np.ndarray, over: float = 1.0) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        values = values / over
        rows = np.arange(len(values))
        known: dict[int, np.ndarray] = {
            own.feature: class_bins(own, rows, values[:, None], self.n_classes)[:, :, 0]
            for own in self.own
        }
        return self._edges(known)

    def edges_of_bins(self, bins: Mapping[int, np.ndarray], total: np.ndarray) -> np.ndarray:
        """Return what ``edges`` does, given sums per fine bin and class of each feature."""
        return self._edges({own.feature: own.merged(bins[own.feature]) for own in self.own})

    def _edges(self, bins: Mapping[int, np.ndarray]) -> np.ndarray:
        parts = []
        for feature, sets, is_kept in self._tried:
            own = bins[feature]
            answers = 2.0 * sets.inside(own) - own.sum(axis=0)
            parts.append(np.where(is_kept[:, None], 0.0, answers))
        out: np.ndarray = np.sum(np.concatenate(parts) * self.votes, axis=1)
        return out

    def _voted(self, sets: Sets, bins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return sums and votes of all sets, from sums per bin and class."""
        total = bins.sum(axis=0)
        inside = sets.inside(bins.reshape(len(bins), -1)).reshape(-1, *total.shape)
        answers = 2.0 * inside - total
        votes = np.where(answers[:, :, 0] >= 0.0, 1, -1).astype(np.int8)
        votes *= votes[:, :1]
        return np.einsum("sl,slt->st", votes, answers).astype(np.float32), votes


def is_among(sets: Sets, own: SpecialFeature, kept: Sequence[Learner]) -> np.ndarray:
    """Tell which sets are those of kept learners, or all but those."""
    mark = np.random.default_rng(0).normal(size=(own.n_bins, 1))  # sets have different sums
    marks = sets.inside(mark)[:, 0]
    found = np.zeros(len(marks), dtype=bool)
    for learner in kept:
        inside = float(own.members(learner) @ mark[:, 0])
        for same in (inside, float(mark.sum()) - inside):
            found |= np.abs(marks - same) < 1e-9
    return found
