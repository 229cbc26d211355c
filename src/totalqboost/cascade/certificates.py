"""What is promised of a detector, and what was seen of it on rows that nobody has used before."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from totalqboost.cascade.bounds import lower_bound, upper_bound
from totalqboost.parameters import check_integer, check_share

__all__ = ["Certificate", "Guarantee", "certificate_of"]


@dataclass(frozen=True)
class Guarantee:
    """The recall that thresholds were set for, and the rows that they were set on.

    Attributes
    ----------
    min_recall, confidence : float
        With probability ``confidence`` over the draw of held-out positives, at least the share
        ``min_recall`` of the positives to come is found.
    n_positives, n_missed : int
        Held-out positives, and how many of them the bound lets thresholds give up.

    Examples
    --------
    >>> from totalqboost.cascade.certificates import Guarantee
    >>> print(Guarantee(0.95, 0.95, 300, 8))
    at least 0.95 with confidence 0.95, by 300 held-out positives of which 8 may be missed
    """

    min_recall: float
    confidence: float
    n_positives: int
    n_missed: int

    def __post_init__(self) -> None:
        for name in ("min_recall", "confidence"):
            object.__setattr__(self, name, check_share(name, getattr(self, name)))
        for name in ("n_positives", "n_missed"):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), 0))
        if self.n_missed > self.n_positives:
            raise ValueError(f"n_missed must be at most {self.n_positives}, got {self.n_missed}")

    def __str__(self) -> str:
        return (
            f"at least {self.min_recall:g} with confidence {self.confidence:g}, by "
            f"{self.n_positives} held-out positives of which {self.n_missed} may be missed"
        )

    def content(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def of_content(cls, content: Any) -> Guarantee:
        """Return the guarantee of plain values, checked; keys of others are not looked at."""
        if not isinstance(content, dict):
            raise ValueError(f"guarantee must be an object, got {content!r}")
        given: dict[str, Any] = {field.name: content.get(field.name) for field in fields(cls)}
        return cls(**given)


@dataclass(frozen=True)
class Certificate:
    """What a detector did on rows that nobody has used before, with bounds that hold.

    Attributes
    ----------
    confidence : float
        Of each bound by itself.
    n_positives, n_missed : int
        Positives among the rows, and those that were not detected.
    recall, recall_bound : float
        The share of positives that was detected, and Clopper and Pearson's lower bound of the
        recall on all rows to come.
    n_negatives, n_false : int
        Negatives among the rows, and those that were detected.
    false_positive_rate, false_positive_bound : float
        Their share, and its upper bound.
    mean_learners_evaluated : float
        Weak classifiers that a negative took on average.

    Examples
    --------
    >>> from totalqboost import CascadeClassifier
    >>> from totalqboost.datasets import make_rare_event
    >>> X, y = make_rare_event(5000, positive_rate=0.1, seed=0, n_features=6)
    >>> detector = CascadeClassifier(min_recall=0.9).fit(X, y)
    >>> fresh = make_rare_event(5000, positive_rate=0.1, seed=1, n_features=6)
    >>> certificate = detector.certify(*fresh)
    >>> certificate.recall_bound < certificate.recall
    True
    """

    confidence: float
    n_positives: int
    n_missed: int
    recall: float
    recall_bound: float
    n_negatives: int
    n_false: int
    false_positive_rate: float
    false_positive_bound: float
    mean_learners_evaluated: float

    def __str__(self) -> str:
        return (
            f"recall {self.recall:.4f} ({self.n_missed} of {self.n_positives} positives missed), "
            f"at least {self.recall_bound:.4f} with confidence {self.confidence:g}; false "
            f"positives {self.false_positive_rate:.4f} ({self.n_false} of {self.n_negatives}), at "
            f"most {self.false_positive_bound:.4f}; {self.mean_learners_evaluated:.1f} weak "
            "classifiers per negative"
        )


def certificate_of(
    margins: np.ndarray, n_evaluated: np.ndarray, is_positive: np.ndarray, confidence: float
) -> Certificate:
    """Return the certificate of what ``Cascade.evaluate`` says about rows."""
    found = margins >= 0
    n, n_hits = int(is_positive.sum()), int(found[is_positive].sum())
    m, n_false = int((~is_positive).sum()), int(found[~is_positive].sum())
    return Certificate(
        confidence=float(confidence),
        n_positives=n,
        n_missed=n - n_hits,
        recall=n_hits / n if n else np.nan,
        recall_bound=lower_bound(n_hits, n, confidence),
        n_negatives=m,
        n_false=n_false,
        false_positive_rate=n_false / m if m else np.nan,
        false_positive_bound=upper_bound(n_false, m, confidence),
        mean_learners_evaluated=float(n_evaluated[~is_positive].mean()) if m else np.nan,
    )
