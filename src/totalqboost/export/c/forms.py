"""Bodies of functions: the same sum as a table with a loop, or as one comparison after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from totalqboost.export.c.inputs import LEAST, Float32, Input
from totalqboost.export.c.weights import Weights
from totalqboost.export.model import Term
from totalqboost.learners import Missing, Stump

__all__ = [
    "Plan",
    "Row",
    "bracketed",
    "ifs",
    "loop",
    "number",
    "packed",
    "packed_bits",
    "row_table",
    "table",
    "threshold_in_table",
]

Lines = list[str]
FEWEST = 5  # stumps for which a loop is shorter than comparisons
FEWEST_IN_A_BYTE = 2  # stumps that are worth a variable of their own
DEEPEST = 16  # ifs inside ifs
MINUS = "/* Minus the score: its sign bit is the label. */"
Row = tuple[Any, tuple[int, ...]]  # a condition, and what it adds to each score if it holds


@dataclass(frozen=True)
class Plan:
    """All that a form needs.

    Attributes
    ----------
    name : str
        Prefix of names; in capitals that of macros.
    input : Input
        What x holds.
    terms : sequence of Term
        The conditions.
    weights : Weights
        Integers for them.
    bits : int
        Of weights in tables: 8, 16 or 32; 24 if they share a word with the feature.
    is_shared : bool
        Whether jumps of classes differ in sign only.
    unit : float
        The score of a sum of 1: of models of integer weights, which are summed as integers.
    """

    name: str
    input: Input
    terms: Sequence[Term]
    weights: Weights
    bits: int
    is_shared: bool = False
    unit: float = 1.0

    @property
    def per_score(self) -> float:
        """How many of the header's integers make a score of 1."""
        return self.weights.scale / self.unit

    @property
    def macro(self) -> str:
        """Prefix of macros."""
        return self.name.upper()

    @property
    def n_scores(self) -> int:
        """One for two classes, else one per class."""
        return len(self.weights.start)

    @property
    def sum_type(self) -> str:
        """The fastest type that holds every sum."""
        low, high = self.weights.extremes
        return "int_fast16_t" if low > -(2**15) and high < 2**15 else "int_fast32_t"

    def rows(self) -> tuple[list[int], list[Row]]:
        """Return the start with all that always holds, and what may hold or not."""
        start = list(self.weights.start)
        kept: list[Row] = []
        for term, jumps in zip(self.terms, self.weights.jumps, strict=True):
            test = self.input.holds(term.condition)
            if test is True:
                start = [s + jump for s, jump in zip(start, jumps, strict=True)]
            elif test is not False and any(jumps):
                kept.append((term.condition, jumps))
        return start, kept

    def is_above(self, condition: Any) -> bool:
        """Whether a row of a table counts missing values as above its threshold."""
        if not (isinstance(self.input, Float32) and self.input.has_missing):
            return False
        return isinstance(condition, Missing) or condition.missing_above

    def read(self, kind: str, place: str) -> str:
        """Return how an element of a table is read; ``kind`` is such as I16."""
        return f"{self.macro}_{kind}({place})"


def number(value: int) -> str:
    """Return an integer as C writes it, whatever the size of int."""
    return f"{value}L" if abs(value) > 2**15 - 1 else str(value)


# -- one comparison after another ------------------------------------------------------------


def ifs(plan: Plan) -> Lines:
    """Return the function that sums scores, with stumps grouped by feature, nested upwards."""
    start, rows = plan.rows()
    early = _in_a_byte(plan, -start[0], rows)
    late = [row for row in rows if not any(row is own for own in early)]
    if not early:
        return _function(plan, start, [], _comparisons(plan, rows), _reads(rows))
    kind, suffix = _byte_of(-start[0])
    lines = [
        *_comparisons(plan, early, kind),
        f"    s = ({plan.sum_type})a;",
        *_comparisons(plan, late),
    ]
    first = [f"    {kind} a = {-start[0]}{suffix};", f"    {plan.sum_type} s;"]
    return _function(plan, start, [], lines, _reads(rows), first)


def _byte_of(start: int) -> tuple[str, str]:
    """Return a type of 8 bits that holds a number, if one does, and the suffix of literals."""
    return ("uint_fast8_t", "U") if start >= 0 else ("int_fast8_t", "")


def _in_a_byte(plan: Plan, start: int, rows: Sequence[Row]) -> list[Row]:
    """Return the stumps of features whose sum with the start stays in 8 bits, whatever holds.

    Added up first, they cost an 8-bit processor half as much; others add words all the same.
    """
    low, high = (0, 255) if start >= 0 else (-128, 127)
    if plan.n_scores > 1 or not low <= start <= high:
        return []
    plain = [row for row in rows if isinstance(row[0], Stump | Missing)]
    blocks = [
        [row for row in plain if row[0].feature == j] for j in {row[0].feature for row in plain}
    ]
    blocks.sort(
        key=lambda own: (sum(abs(jumps[0]) for _, jumps in own) / len(own), own[0][0].feature)
    )
    found: list[Row] = []
    least = most = start
    for own in blocks:
        below = least - sum(max(jumps[0], 0) for _, jumps in own)
        above = most - sum(min(jumps[0], 0) for _, jumps in own)
        if low <= below and above <= high:
            least, most = below, above
            found += own
    return found if len(found) >= FEWEST_IN_A_BYTE else []


def _function(
    plan: Plan,
    start: Sequence[int],
    loop: Lines,
    tail: Lines,
    reads: bool,
    declared: Lines | None = None,
) -> Lines:
    """Return the function around a loop and comparisons."""
    x, name = f"const {plan.input.c_type} *x", plan.name
    value = [f"    {plan.input.value_type} v;"] if reads else []
    unused = [] if loop or tail else ["    (void)x;"]
    if plan.n_scores == 1:
        head = f"static inline {plan.sum_type} {name}_sum({x})"
        first = declared or [f"    {plan.sum_type} s = {number(-start[0])};"]
        body = [*value, *first, *unused, *loop, *tail, "    return s;"]
        return [MINUS, head, "{", *body, "}", "", *_signed(plan)]
    head = f"static inline void {name}_scores({x}, {plan.sum_type} *s)"
    first = [f"    s[{c}] = {number(s)};" for c, s in enumerate(start)]
    return [head, "{", *value, *unused, *first, *loop, *tail, "}"]


def _signed(plan: Plan) -> Lines:
    """Return the functions that make a score and a label of minus the score."""
    x, name = f"const {plan.input.c_type} *x", plan.name
    return [
        f"static inline {plan.sum_type} {name}_score({x})",
        "{",
        f"    return -{name}_sum(x);",
        "}",
        "",
        f"static inline int {name}_predict({x})",
        "{",
        f"    return ({name}_sum(x) < 0) ? 1 : 0;",
        "}",
    ]


def _reads(rows: Sequence[Row]) -> bool:
    """Whether comparisons need a variable for the value of a feature."""
    return any(isinstance(condition, Stump | Missing) for condition, _ in rows)


def _comparisons(plan: Plan, rows: Sequence[Row], byte: str = "") -> Lines:
    """Return ifs: of each feature, then of conditions on categories and on several features.

    They add to scores, or to the variable ``a`` of a type of 8 bits.
    """
    plain = [row for row in rows if isinstance(row[0], Stump | Missing)]
    lines: Lines = []
    for feature in sorted({condition.feature for condition, _ in plain}):
        own = [row for row in plain if row[0].feature == feature]
        cuts = [row for row in own if isinstance(row[0], Stump) and not row[0].missing_above]
        cuts.sort(key=lambda row: row[0].threshold)
        lines.append(f"    v = {plan.input.value(feature)};")
        lines += _nested(plan, cuts, byte)
        others = [row for row in own if not any(row is cut for cut in cuts)]
        lines += [line for row in others for line in _single(plan, row, "v", byte)]
    others = [row for row in rows if not isinstance(row[0], Stump | Missing)]
    return lines + [line for row in others for line in _single(plan, row, None, byte)]


def _nested(plan: Plan, rows: Sequence[Row], byte: str) -> Lines:
    """Return ifs inside ifs: what is below one threshold is below all that are higher."""
    lines: Lines = []
    depth, held = 0, ""
    for condition, jumps in rows:
        test = str(plan.input.holds(condition, "v"))
        if test != held:
            if depth == DEEPEST:
                lines += _ends(depth)
                depth = 0
            lines.append(f"{'    ' * (depth + 1)}if {bracketed(test)} {{")
            depth, held = depth + 1, test
        lines += [f"{'    ' * (depth + 1)}{line}" for line in _additions(plan, jumps, byte)]
    return lines + _ends(depth)


def _ends(depth: int) -> Lines:
    return ["    " * level + "}" for level in range(depth, 0, -1)]


def _single(plan: Plan, row: Row, value: str | None, byte: str) -> Lines:
    condition, jumps = row
    test = str(plan.input.holds(condition, value))
    inside = [f"        {line}" for line in _additions(plan, jumps, byte)]
    return [f"    if {bracketed(test)} {{", *inside, "    }"]


def bracketed(test: str) -> str:
    """Return a test in brackets, unless it has those of a whole expression already."""
    depth = 0
    for place, letter in enumerate(test):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and place < len(test) - 1:
            return f"({test})"
    return test


def _additions(plan: Plan, jumps: Sequence[int], byte: str) -> Lines:
    if byte:
        suffix = "U" if byte.startswith("u") else ""
        sign = "+" if jumps[0] < 0 else "-"
        return [f"a = ({byte})(a {sign} {abs(jumps[0])}{suffix});"]
    if plan.n_scores == 1:
        return [_addition("s", -jumps[0])]
    return [_addition(f"s[{c}]", jump) for c, jump in enumerate(jumps) if jump]


def _addition(place: str, jump: int) -> str:
    return f"{place} {'-' if jump < 0 else '+'}= {number(abs(jump))};"


# -- a table with a loop ---------------------------------------------------------------------


def table(plan: Plan) -> Lines:
    """Return a table of the stumps and the function that sums scores: a loop over it.

    What no table holds (categories, conjunctions) follows as comparisons.
    """
    start, rows = plan.rows()
    tabled = [row for row in rows if threshold_in_table(plan, row[0]) is not None]
    others = [row for row in rows if threshold_in_table(plan, row[0]) is None]
    if len(tabled) < FEWEST:
        return ifs(plan)
    # Those that count missing values as above come last.
    tabled.sort(key=lambda row: plan.is_above(row[0]))
    is_one = plan.n_scores == 1
    declared = row_table(plan, tabled, {}, sign=-1) if is_one else _of_classes(plan, tabled)
    tail = _comparisons(plan, others)
    return [*declared, "", *_function(plan, start, loop(plan, tabled), tail, _reads(others))]


def loop(plan: Plan, rows: Sequence[Row]) -> Lines:
    """Return the loop over a table of rows."""
    t, w, f = _kinds(plan, rows)
    row = f"{plan.name}_table[i]"
    feature, threshold = plan.read(f, f"&{row}.feature"), plan.read(t, f"&{row}.threshold")
    return _loop(plan, rows, feature, threshold, _row_additions(plan, w, row))


def threshold_in_table(plan: Plan, condition: Any) -> int | None:
    """Return what a row of the table compares with, or None if it cannot be there."""
    if isinstance(condition, Stump):
        return plan.input.threshold_of(condition)
    if isinstance(condition, Missing) and isinstance(plan.input, Float32):
        return 0xFFFFFFFF - LEAST  # plus infinity where NaN is above it
    return None


def _kinds(plan: Plan, rows: Sequence[Row]) -> tuple[str, str, str]:
    """Return the types of thresholds, jumps and features, such as U32."""
    kinds = {"uint32_t": "U32", "int32_t": "I32", "int16_t": "I16", "uint8_t": "U8"}
    most = max(condition.feature for condition, _ in rows)
    feature = "U8" if most < 2**8 else "U16" if most < 2**16 else "U32"
    return kinds[plan.input.key_type], f"I{32 if plan.bits == 24 else plan.bits}", feature


def _c_type(kind: str) -> str:
    return f"{'u' if kind[0] == 'U' else ''}int{kind[1:]}_t"


def _literal(value: int, kind: str) -> str:
    return (
        f"UINT32_C(0x{value:x})"
        if kind == "U32"
        else f"{value}U"
        if kind[0] == "U"
        else number(value)
    )


def row_table(
    plan: Plan, rows: Sequence[Row], more: dict[str, tuple[str, Sequence[int]]], sign: int
) -> Lines:
    """Return a table of stumps with one jump each, times the sign, and further columns."""
    t, w, f = _kinds(plan, rows)
    fields = {"threshold": t, "jump": w, "feature": f} | {
        name: own[0] for name, own in more.items()
    }
    cells: list[dict[str, Any]] = []
    for k, (condition, jumps) in enumerate(rows):
        own = {"threshold": threshold_in_table(plan, condition), "feature": condition.feature}
        further = {name: values[k] for name, (_, values) in more.items()}
        cells.append({**own, **further, "jump": sign * jumps[0]})
    return _struct(plan, fields, cells)


def _struct(plan: Plan, fields: dict[str, str], cells: Sequence[dict[str, Any]]) -> Lines:
    """Return a table of rows; wide fields come first, so that there is little padding."""
    order = sorted(fields, key=lambda field: -int(fields[field][1:]))
    lines = [
        "typedef struct {",
        *(f"    {_c_type(fields[field])} {field};" for field in order),
        f"}} {plan.name}_row;",
        "",
        f"static const {plan.name}_row {plan.name}_table[{len(cells)}] {plan.macro}_FLASH = {{",
    ]
    for row in cells:
        lines.append(
            f"    {{{', '.join(_literal(row[field], fields[field]) for field in order)}}},"
        )
    return [*lines, "};"]


def _of_classes(plan: Plan, rows: Sequence[Row]) -> Lines:
    """Return tables for several classes: weights per class, or one weight and signs."""
    t, w, f = _kinds(plan, rows)
    fields = {"threshold": t, "feature": f}
    cells = [
        {"threshold": threshold_in_table(plan, condition), "feature": condition.feature}
        for condition, _ in rows
    ]
    if _has_votes(plan):
        fields |= {"jump": w, "votes": _votes_kind(plan)}
        for cell, (_, jumps) in zip(cells, rows, strict=True):
            cell["jump"] = abs(jumps[0])
            cell["votes"] = sum(1 << c for c, jump in enumerate(jumps) if jump > 0)
        return _struct(plan, fields, cells)
    head = f"static const {_c_type(w)} {plan.name}_jumps[{len(rows) * plan.n_scores}]"
    return [
        *_struct(plan, fields, cells),
        "",
        f"{head} {plan.macro}_FLASH = {{",
        *(f"    {', '.join(map(number, jumps))}," for _, jumps in rows),
        "};",
    ]


def _has_votes(plan: Plan) -> bool:
    return plan.is_shared and plan.n_scores <= 32


def _votes_kind(plan: Plan) -> str:
    return "U8" if plan.n_scores <= 8 else "U16" if plan.n_scores <= 16 else "U32"


def _loop(
    plan: Plan,
    rows: Sequence[Row],
    feature: str,
    threshold: str,
    inside: Lines,
    is_pointer: bool = False,
) -> Lines:
    """Return a loop over the table with what is done where a condition holds.

    A row is number ``i`` of the table, or what the pointer ``row`` points to.
    """
    n, n_below = len(rows), sum(not plan.is_above(condition) for condition, _ in rows)
    value = plan.input.key(feature, _are_positive(plan, rows))
    if n_below == 0:
        value = f"(uint32_t)({value} - UINT32_C(0x{LEAST:x}))"
    elif n_below < n:
        less = f"((i < {n_below}U) ? UINT32_C(0) : UINT32_C(0x{LEAST:x}))"
        value = f"(uint32_t)({value}\n            - {less})"
    index = "uint_fast8_t" if n < 2**8 else "uint_fast16_t"
    table = f"{plan.name}_table"
    first = [f"    {index} i;", f"    for (i = 0U; i < {n}U; i++) {{"]
    last = ["    }"]
    if is_pointer:
        first = [f"    const {plan.name}_row *row = {table};", "    do {"]
        last = ["        row++;", f"    }} while (row != &{table}[{n}]);"]
    return [
        *first,
        f"        const {plan.input.key_type} own = {value};",
        f"        if (own > {threshold}) {{",
        *(f"            {line}" for line in inside),
        "        }",
        *last,
    ]


def _are_positive(plan: Plan, rows: Sequence[Row]) -> bool:
    """Whether no threshold is below 0."""
    return all((threshold_in_table(plan, condition) or 0) >= 0 for condition, _ in rows)


def _row_additions(plan: Plan, w: str, row: str) -> Lines:
    jump = plan.read(w, f"&{row}.jump")
    if plan.n_scores == 1:
        return [f"s += {jump};"]
    index = "uint_fast8_t" if plan.n_scores < 2**8 else "uint_fast16_t"
    head = [f"{index} c;", f"for (c = 0U; c < {plan.n_scores}U; c++) {{"]
    if not _has_votes(plan):
        place = f"&{plan.name}_jumps[(i * {plan.n_scores}U) + c]"
        return [*head, f"    s[c] += {plan.read(w, place)};", "}"]
    votes = plan.read(_votes_kind(plan), f"&{row}.votes")
    return [*head, f"    s[c] += ((({votes} >> c) & 1U) != 0U) ? {jump} : -{jump};", "}"]


# -- feature and weight in one word ----------------------------------------------------------


def packed_bits(terms: Sequence[Term]) -> int:
    """Return the bits of a word of 32 that the number of a feature leaves for the weight."""
    most = max((j for term in terms for j in term.condition.features), default=0)
    return 32 - max(1, most.bit_length())


def packed(plan: Plan) -> Lines | None:
    """Return a table of two words per stump for two classes, or None if not all fit into it.

    The upper bits of the first word are the feature, the lower ones minus the jump, modulo 2^n.
    The words are added as they are: what the upper bits become is of no interest, and the sign
    of the sum is the highest of the lower bits.
    """
    start, rows = plan.rows()
    is_fit = all(threshold_in_table(plan, condition) is not None for condition, _ in rows)
    room = packed_bits(plan.terms)
    # With 25 bits the sign is the lowest bit of a byte, and processors of 8 bits need not shift.
    bits = min(max(plan.bits, 25), room)
    low, high = plan.weights.extremes
    if not is_fit or len(rows) < FEWEST or max(-low, high) >= 2 ** (bits - 1):
        return None
    rows.sort(key=lambda row: plan.is_above(row[0]))
    mask = 2**bits - 1
    kind = _kinds(plan, rows)[0]
    cells = [
        {
            "word": condition.feature << bits | -jumps[0] & mask,
            "threshold": threshold_in_table(plan, condition),
        }
        for condition, jumps in rows
    ]
    name, byte, place = plan.name, (bits - 1) // 8 * 8, (bits - 1) % 8
    sign = f"(uint8_t)({name}_sum(x) >> {byte})"
    sign = f"({sign} >> {place})" if place else sign
    return [
        *_struct(plan, {"word": "U32", "threshold": kind}, cells),
        "",
        MINUS,
        f"static inline uint32_t {name}_sum(const {plan.input.c_type} *x)",
        "{",
        f"    uint32_t s = UINT32_C(0x{-start[0] & mask:x});",
        *_packed_loop(plan, rows, bits),
        "    return s;",
        "}",
        "",
        f"static inline {plan.sum_type} {name}_score(const {plan.input.c_type} *x)",
        "{",
        f"    const uint32_t s = (0U - {name}_sum(x)) & UINT32_C(0x{mask:x});",
        f"    return (s < UINT32_C(0x{2 ** (bits - 1):x})) ? ({plan.sum_type})s",
        f"        : -({plan.sum_type})(UINT32_C(0x{mask:x}) - s) - 1;",
        "}",
        "",
        f"static inline int {name}_predict(const {plan.input.c_type} *x)",
        "{",
        f"    return (int)({sign} & 1U);",
        "}",
    ]


def _packed_loop(plan: Plan, rows: Sequence[Row], bits: int) -> Lines:
    """Return the loop over words; the byte with the feature is read alone if it holds all of it."""
    n_above = sum(plan.is_above(condition) for condition, _ in rows)
    row = f"{plan.name}_table[i]." if 0 < n_above < len(rows) else "row->"
    word = f"&{row}word"
    feature = f"{plan.read('U32', word)} >> {bits}"
    if bits >= 24:
        feature = plan.read("TOP", word) + (f" >> {bits - 24}" if bits > 24 else "")
    threshold = plan.read(_kinds(plan, rows)[0], f"&{row}threshold")
    inside = [f"s += {plan.read('U32', word)};"]
    return _loop(plan, rows, feature, threshold, inside, is_pointer=row == "row->")
