"""Options of a header: what users wish for, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from totalqboost.ensemble import Ensemble
from totalqboost.export.model import check_identifier

__all__ = ["Options"]

KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while alignas alignof and asm bitand bitor bool catch class compl constexpr decltype
delete explicit export false friend mutable namespace new noexcept not nullptr operator or private
protected public static_assert template this throw true try typeid typename using virtual wchar_t
xor
"""  # of C and of C++
WORDS = frozenset(KEYWORDS.split())
INPUTS = ("float32", "int16", "uint8")
AIMS = ("size", "speed")
WIDTHS = {"auto": (8, 16, 24, 32), "int8": (8,), "int16": (16,), "int32": (32,)}


@dataclass(frozen=True, eq=False)
class Options:
    """The arguments of :func:`totalqboost.export.to_c`, which says what they mean."""

    name: str
    input: str
    optimize: str
    weights: str
    missing: bool | None
    probabilities: bool
    rows: Any
    ranges: Mapping[Any, tuple[float, float]] | None
    rejections: Sequence[float] | None
    detector: bool
    early_exit: bool
    feature_costs: Any
    test_rows: Any
    notes: Mapping[str, Any] | None

    def __post_init__(self) -> None:
        check_identifier(self.name, reserved=WORDS)
        if self.name.startswith("_"):
            raise ValueError(
                f"name must not begin with _, which compilers claim, got {self.name!r}"
            )
        for argument, known in (("input", INPUTS), ("optimize", AIMS), ("weights", WIDTHS)):
            value = getattr(self, argument)
            if value not in known:
                raise ValueError(f"{argument} must be one of {list(known)}, got {value!r}")
        if self.notes is not None and not isinstance(self.notes, Mapping):
            raise TypeError(f"notes must map names to what is noted, got {self.notes!r}")

    def check_for(self, ensemble: Ensemble) -> None:
        """Refuse what does not go together."""
        if self.ranges is not None and self.input == "float32":
            raise ValueError("ranges must be None for float32 inputs, which need no scale")
        if self.rejections is not None and (self.early_exit or self.probabilities):
            other = "early_exit" if self.early_exit else "probabilities"
            raise ValueError(
                f"{other} must be False with rejections, which stop before all is summed"
            )
        if self.early_exit and ensemble.is_multiclass:
            raise ValueError(f"early_exit must be False for {ensemble.n_classes} classes")
        if self.detector and self.rejections is None:
            raise ValueError("detector must be False without rejections, got True")

    @property
    def is_small(self) -> bool:
        """Whether bytes count more than cycles."""
        return self.optimize == "size"

    @property
    def widths(self) -> tuple[int, ...]:
        """The bits of weights that are tried in turn."""
        if self.weights == "auto" and self.rejections is None:
            if self.probabilities:  # scores are read, not labels only
                return (16, 24, 32)
            if self.input == "uint8":
                return (8,)
        return WIDTHS[self.weights]
