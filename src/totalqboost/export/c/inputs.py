"""What a program hands over: floats, or integers that stand for them; and conditions on these.

Bits of a float are compared as an unsigned integer, its key, so that no processor needs floating
point: keys ascend with the numbers, and NaNs of either sign come below minus infinity.

    NaN  0x00000000 ... 0x00fffffd      -inf 0x00fffffe  ...  +inf 0xffffffff

Less 0x00fffffe, modulo 2^32, NaNs come above plus infinity, for cuts that count them as above.
Where nothing is missing, shorter comparisons will do: keys are signed, and a single threshold is
compared with the bits as they are, signed if it is positive, unsigned and reversed if not.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from totalqboost.export.model import float32_below
from totalqboost.learners import Both, CategorySet, Feature, Missing, Stump

__all__ = ["Float32", "Input", "Integer", "float_key"]

LEAST = 0x00FFFFFE  # the key of minus infinity
WORD = 0xFFFFFFFF
GONE = 0xFFFFFFFE  # the code of NaN


def float_key(value: float) -> int:
    """Return the key of a number, -0.0 as 0.0.

    Examples
    --------
    >>> hex(float_key(-math.inf)), hex(float_key(-0.0)), hex(float_key(math.inf))
    ('0xfffffe', '0x807fffff', '0xffffffff')
    """
    bits = _bits(value)
    return ((0x7FFFFFFF ^ bits if bits >> 31 else bits) + 0x807FFFFF) & WORD


def _bits(value: float) -> int:
    return int(np.array([value + 0.0], dtype=np.float32).view(np.uint32)[0])


def _signed(word: int) -> int:
    return word - 2**32 if word >> 31 else word


@dataclass(frozen=True)
class Input(ABC):
    """How conditions read ``x``; each kind of input is a subclass.

    Attributes
    ----------
    name : str
        Prefix of everything in the header.
    features : sequence of Feature
        The columns.
    has_missing : bool
        Whether values may be missing: NaN, or the least integer.
    element : str
        Where feature j is found.
    """

    name: str
    features: Sequence[Feature]
    has_missing: bool = False
    element: str = "x[{}]"

    c_type = ""  # of the elements of x
    value_type = ""  # of what is compared

    @abstractmethod
    def value(self, j: int | str) -> str:
        """Return what is compared of feature j, as an expression."""

    @property
    def key_type(self) -> str:
        """The type of what tables compare."""
        return self.value_type

    def key(self, j: int | str, is_positive: bool = False) -> str:
        """Return what is compared with thresholds of tables; all may be known to be >= 0."""
        return self.value(j)

    @abstractmethod
    def stump(self, stump: Stump, value: str) -> str | bool:
        """Return whether the value is above the threshold, as an expression or for certain."""

    @abstractmethod
    def missing(self, j: int, value: str) -> str | bool:
        """Return whether the value is missing."""

    @abstractmethod
    def code(self, j: int) -> str:
        """Return the code of a category, large if it is none, as an unsigned expression."""

    def missing_code(self, j: int) -> int | None:
        """Return the code of the category of missing values, if training had some."""
        labels = self.features[j].categories if j < len(self.features) else None
        return labels.index(None) if labels is not None and None in labels else None

    @abstractmethod
    def gone(self, j: int) -> str | None:
        """Return whether a category is missing without the code that says so."""

    def holds(self, condition: Any, value: str | None = None) -> str | bool:
        """Return whether a condition answers +1; ``value`` is a variable that holds its value."""
        match condition:
            case Stump(feature, _, polarity):
                found = self.stump(condition, value or self.value(feature))
            case Missing(feature, polarity):
                found = self.missing(feature, value or self.value(feature))
            case CategorySet(feature, codes, polarity):
                found = self._inside(codes, self.code(feature))
                gone = self.gone(feature) if self.missing_code(feature) in codes else None
                found = found if gone is None else f"({found} || {gone})"
            case Both(first, second, polarity):
                found = self._both(self.holds(first), self.holds(second))
        return found if polarity > 0 else _opposite(found)

    def _both(self, first: str | bool, second: str | bool) -> str | bool:
        if isinstance(first, bool) or isinstance(second, bool):
            return second if first is True else first if second is True else False
        return f"{first} && {second}" if first != second else first

    def _inside(self, codes: Sequence[int], code: str) -> str | bool:
        """Return whether a code is in a set, as bits of words of 32."""
        words: dict[int, int] = {}
        for own in codes:
            words[own // 32] = words.get(own // 32, 0) | 1 << own % 32
        parts = [self._in_word(word, bits, code) for word, bits in sorted(words.items())]
        return parts[0] if len(parts) == 1 else "(" + " || ".join(parts) + ")"

    def _in_word(self, word: int, bits: int, code: str) -> str:
        if bits & (bits - 1) == 0:
            return f"({code} == {32 * word + bits.bit_length() - 1}U)"
        other = code if word == 0 else f"({code} - {32 * word}U)"
        return f"(({other} < 32U) && (((UINT32_C(0x{bits:x}) >> {other}) & 1U) != 0U))"

    @abstractmethod
    def prelude(self, body: str) -> list[str]:
        """Return the functions that conditions in the body call."""

    @abstractmethod
    def answers(self, condition: Any, X: np.ndarray) -> np.ndarray:
        """Return whether a condition holds of rows as they are handed over; the twin of C."""

    @abstractmethod
    def quantized(self, X: np.ndarray) -> np.ndarray:
        """Return rows of numbers and codes as the program would hand them over."""

    @abstractmethod
    def threshold_of(self, stump: Stump) -> int | None:
        """Return the number that values are compared with, if a table may hold the stump."""


def _opposite(found: str | bool) -> str | bool:
    if isinstance(found, bool):
        return not found
    return f"(!({found}))" if "&&" in found and not found.startswith("(") else f"(!{found})"


@dataclass(frozen=True)
class Float32(Input):
    """Single precision: thresholds are rounded down to it, which changes no comparison."""

    c_type = "float"

    @property
    def value_type(self) -> str:  # type: ignore[override]
        return "uint32_t"

    @property
    def key_type(self) -> str:
        return "uint32_t" if self.has_missing else "int32_t"

    def value(self, j: int | str) -> str:
        function = "key" if self.has_missing else "bits"
        return f"{self.name}_{function}({self.element.format(j)})"

    def key(self, j: int | str, is_positive: bool = False) -> str:
        if is_positive and not self.has_missing:  # bits of negative numbers are below all of them
            return f"(int32_t){self.name}_bits({self.element.format(j)})"
        return f"{self.name}_key({self.element.format(j)})"

    def stump(self, stump: Stump, value: str) -> str | bool:
        threshold = float32_below(stump.threshold)
        if not self.has_missing:
            bits = _bits(threshold)
            if bits >> 31:
                return f"({value} < UINT32_C(0x{bits:x}))"
            return f"((int32_t){value} > INT32_C(0x{bits:x}))"
        key = float_key(threshold)
        if stump.missing_above:
            return f"((uint32_t)({value} - UINT32_C(0x{LEAST:x})) > UINT32_C(0x{key - LEAST:x}))"
        return f"({value} > UINT32_C(0x{key:x}))"

    def missing(self, j: int, value: str) -> str | bool:
        return f"({value} < UINT32_C(0x{LEAST:x}))" if self.has_missing else False

    def code(self, j: int) -> str:
        return f"{self.name}_code({self.element.format(j)})"

    def gone(self, j: int) -> str | None:
        return f"({self.code(j)} == UINT32_C(0x{GONE:x}))"

    def threshold_of(self, stump: Stump) -> int | None:
        key = float_key(float32_below(stump.threshold))
        if not self.has_missing:
            return _signed((key - 0x807FFFFF) & WORD)
        return key - LEAST if stump.missing_above else key

    def quantized(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # beyond single precision is infinity there
            Q: np.ndarray = X.astype(np.float32)
        for j in range(Q.shape[1]):
            code = self.missing_code(j)
            if code is not None:
                Q[np.isnan(Q[:, j]), j] = code
        return Q

    def answers(self, condition: Any, X: np.ndarray) -> np.ndarray:
        found: np.ndarray = condition.predict(X) > 0
        return found

    def prelude(self, body: str) -> list[str]:
        name = self.name
        lines = [
            f"typedef char {name}_float_has_32_bits[(sizeof(float) == 4U) ? 1 : -1];",
            "",
            f"static inline uint32_t {name}_bits(float value)",
            "{",
            "    uint32_t bits;",
            "    (void)memcpy(&bits, &value, sizeof bits);",
            "    return bits;",
            "}",
        ]
        lines += self._key_function() if f"{name}_key(" in body else []
        has_gone = f"0x{GONE:x}" in body
        return lines + (self._code_function(has_gone) if f"{name}_code(" in body else [])

    def _key_function(self) -> list[str]:
        """Return keys: shifts are short, but on AVR, where they are slow."""
        about, more, cast = "number; NaN is below all", " + UINT32_C(0x807fffff)", ""
        if not self.has_missing:
            about, more, cast = "number", "", "(int32_t)"
        return [
            "",
            f"/* An integer that ascends with the {about}. */",
            f"static inline {self.key_type} {self.name}_key(float value)",
            "{",
            f"    uint32_t bits = {self.name}_bits(value);",
            "#if defined(__AVR__)",
            "    if ((bits >> 31) != 0U) {",
            "        bits ^= UINT32_C(0x7fffffff);",
            "    }",
            f"    return {cast}bits{more};",
            "#else",
            f"    return {cast}(bits ^ ((0U - (bits >> 31)) >> 1)){more};",
            "#endif",
            "}",
        ]

    def _code_function(self, has_gone: bool) -> list[str]:
        nan = [
            "    } else if ((bits & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000)) {",
            f"        code = UINT32_C(0x{GONE:x}); /* NaN: missing */",
        ]
        return [
            "",
            "/* The code of a category from a float: 0, 1, 2, ...; large if it is none. */",
            f"static inline uint32_t {self.name}_code(float value)",
            "{",
            f"    const uint32_t bits = {self.name}_bits(value);",
            "    const uint32_t exponent = bits >> 23; /* with the sign */",
            "    uint32_t code = UINT32_C(0xffffffff);",
            "    if ((bits << 1) == 0U) {",
            "        code = 0U;",
            "    } else if ((exponent >= 127U) && (exponent <= 150U)) {",
            "        code = (bits & UINT32_C(0x7fffff)) | UINT32_C(0x800000);",
            "        code >>= 150U - exponent;",
            *(nan if has_gone else []),
            "    } else {",
            "        /* negative, a fraction, too large or NaN without a category: none */",
            "    }",
            "    return code;",
            "}",
        ]


@dataclass(frozen=True)
class Integer(Input):
    """Integers: the numbers themselves, or numbers on a scale for each feature.

    Attributes
    ----------
    bits : int
        16 (signed) or 8 (unsigned).
    scales : mapping of int to (low, factor), optional
        How features become integers; those without are integers already.
    """

    bits: int = 16
    scales: dict[int, tuple[float, float]] = field(default_factory=dict)

    @property
    def c_type(self) -> str:  # type: ignore[override]
        return "int16_t" if self.bits == 16 else "uint8_t"

    @property
    def value_type(self) -> str:  # type: ignore[override]
        return self.c_type

    @property
    def low(self) -> int:
        """The least integer; it may stand for a missing value."""
        return -(2**15) if self.bits == 16 else 0

    @property
    def high(self) -> int:
        return 2**15 - 1 if self.bits == 16 else 255

    @property
    def least(self) -> int:
        """The least integer that stands for a number."""
        return self.low + self.has_missing

    def value(self, j: int | str) -> str:
        return self.element.format(j)

    def cut(self, stump: Stump) -> int:
        """Return the integer with "above it" for "above the threshold"."""
        if stump.feature not in self.scales:
            return math.floor(stump.threshold)
        # Integers begin halfway between places on the scale: the nearest of these stands for
        # the threshold.
        low, factor = self.scales[stump.feature]
        place = math.floor((stump.threshold - low) * factor) + self.least
        return int(min(max(place, self.least - 1), self.high))

    def stump(self, stump: Stump, value: str) -> str | bool:
        cut = self.cut(stump)
        above: str | bool = f"({value} > {cut})" if self.low <= cut < self.high else cut < self.low
        if not self.has_missing:
            return above
        if stump.missing_above:
            gone = self.missing(stump.feature, value)
            return gone if above is False else above if above is True else f"({above} || {gone})"
        return f"({value} > {self.low})" if above is True else above

    def missing(self, j: int, value: str) -> str | bool:
        return f"({value} == {self.low})" if self.has_missing else False

    def code(self, j: int) -> str:
        own = self.element.format(j)
        return f"(uint16_t){own}" if self.bits == 16 else own

    def gone(self, j: int) -> str | None:
        # Of uint8 the least integer is the first category.
        return f"({self.element.format(j)} == {self.low})" if self.bits == 16 else None

    def threshold_of(self, stump: Stump) -> int | None:
        cut = self.cut(stump)
        is_plain = not (stump.missing_above and self.has_missing)
        return cut if is_plain and self.low <= cut < self.high else None

    def prelude(self, body: str) -> list[str]:
        return []

    def answers(self, condition: Any, X: np.ndarray) -> np.ndarray:
        if isinstance(condition, Both):
            own = self.answers(condition.first, X) & self.answers(condition.second, X)
        else:
            own = self._answers(condition, X[:, condition.feature].astype(np.int64))
        return own if condition.polarity > 0 else ~own

    def _answers(self, condition: Any, q: np.ndarray) -> np.ndarray:
        """Return the same of polarity +1 and one feature."""
        is_missing = (q == self.low) & self.has_missing
        if isinstance(condition, CategorySet):
            code = self.missing_code(condition.feature)
            is_gone = (q == self.low) & (self.bits == 16 and code in condition.codes)
            return np.isin(q, condition.codes) | is_gone
        if isinstance(condition, Missing):
            return is_missing
        above = (q > self.cut(condition)) & ~is_missing
        return above | (is_missing & condition.missing_above)

    # -- numbers as integers ------------------------------------------------------------

    def quantized(self, X: np.ndarray) -> np.ndarray:
        out = np.empty(X.shape, dtype=np.int16 if self.bits == 16 else np.uint8)
        for j, feature in enumerate(self.features):
            x = X[:, j].astype(np.float32)
            low, high = float(self.least), float(self.high)
            if feature.categories is not None:
                q = np.where((x >= 0) & (x <= self.high), x, self.high)
            elif j in self.scales:
                offset, factor = map(np.float32, self.scales[j])
                place = (x - offset) * factor + np.float32(0.5)
                q = np.clip(np.floor(place) + low, low, high)
            else:
                q = np.clip(np.floor(x), low, high)
            code = self.missing_code(j)
            gone = float(self.low) if feature.categories is None else float(self.high)
            gone = gone if code is None else float(code)
            out[:, j] = np.where(np.isnan(x), gone, q)
        return out
