"""An ensemble as an ONNX model of plain operators.

Thresholds are compared all at once, answers become values by a choice of two tables, and the
values are summed one after the other (a cumulative sum), in double precision and in the order of
the library: whatever the type of the input, labels are the same. The operators for trees would
sum in single precision.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from totalqboost.ensemble import Ensemble
from totalqboost.export.model import (
    check_names,
    exportable,
    float32_below,
    scaled_sum,
    summary,
)
from totalqboost.learners import Both, CategorySet, Missing, Stump

__all__ = ["to_onnx"]

INPUTS = ("float32", "float64")
FIRST_OPSET = 13
LAST_OPSET = 25  # that a released onnxruntime reads
DEFAULT_OPSET = 18
EXTRA = 'to_onnx needs the package onnx; install it with pip install "totalqboost[export]"'


def to_onnx(
    model: Any,
    *,
    input: str = "float32",
    columns: bool | None = None,
    opset: int = DEFAULT_OPSET,
    probabilities: bool = True,
) -> Any:
    """Return an ONNX model with the outputs ``label``, ``scores`` and ``probabilities``.

    NaN is a missing number, the empty text a missing category. Two classes have one score.

    Parameters
    ----------
    model : Ensemble or fitted classifier
        What to export.
    input : {"float32", "float64"}
        Type of the numbers. Thresholds are rounded down to it, so that labels are exactly those
        of the library for numbers of that type.
    columns : bool, optional
        One input of shape (n_rows, 1) for each column that is looked at, named like it, of text
        where categories are text. Else one input ``X`` of shape (n_rows, n_features), in which
        categories are codes: their places in ``features[j].categories``, -1 for a new one, NaN
        or its code for a missing one. By default there are columns if the model looks at
        categories.
    opset : int
        Version of the operators, from 13 on.
    probabilities : bool
        Whether there are probabilities, if the loss is one of the library's own.

    Returns
    -------
    onnx.ModelProto
        To be written with ``onnx.save``, or ``SerializeToString()``.

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump, export
    >>> model = Ensemble((Stump(0, 40.0),), (0.7,), 0.1, ("no", "yes"), ("age",), "logistic")
    >>> [output.name for output in export.to_onnx(model).graph.output]
    ['label', 'scores', 'probabilities']
    """
    ensemble = exportable(model)
    onnx = _imported()
    _check(ensemble, input, opset, onnx.defs.onnx_opset_version())
    used = ensemble.used_features
    if columns is None:
        columns = any(ensemble.features[j].categories is not None for j in used)
    columns = columns and bool(used)  # a model of constants needs the number of rows only
    if columns:
        check_names(ensemble, "to_onnx with columns")
    graph = Graph(onnx, ensemble, np.dtype(input), columns)
    graph.build(probabilities)
    domains = [onnx.helper.make_opsetid("", opset)]
    if graph.has_text:
        domains.append(onnx.helper.make_opsetid("ai.onnx.ml", 2))
    made = onnx.helper.make_model(
        graph.made(),
        opset_imports=domains,
        ir_version=onnx.helper.find_min_ir_version_for(domains),
        producer_name="totalqboost",
        doc_string="\n".join(summary(ensemble)),
    )
    about = {"features": ensemble.feature_names, "classes": ensemble.classes}
    onnx.helper.set_model_props(made, {key: json.dumps(about[key]) for key in about})
    onnx.checker.check_model(made)
    return made


def _imported() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise ImportError(EXTRA) from error
    return onnx


def _check(ensemble: Ensemble, input: str, opset: int, newest: int) -> None:
    if input not in INPUTS:
        raise ValueError(f"input must be one of {', '.join(INPUTS)}, got {input!r}")
    last = min(newest, LAST_OPSET)
    is_number = isinstance(opset, int) and not isinstance(opset, bool)
    if not is_number or not FIRST_OPSET <= opset <= last:
        raise ValueError(f"opset must be from {FIRST_OPSET} to {last}, got {opset!r}")
    if not ensemble.features:
        raise ValueError("model must have columns to be exported to ONNX, got none")
    kinds = {np.asarray(label).dtype.kind for label in ensemble.classes}
    if "U" in kinds and len(kinds) > 1:
        raise ValueError(
            f"classes must be all text or all numbers for ONNX, got {list(ensemble.classes)}"
        )
    if np.asarray(ensemble.classes).dtype.kind not in "Uibf":
        raise ValueError(f"classes must fit 64 bits for ONNX, got {list(ensemble.classes)}")


class Graph:
    """Builds the graph of one ensemble: numbers, answers, values, scores, label."""

    def __init__(self, onnx: Any, ensemble: Ensemble, dtype: np.dtype, columns: bool) -> None:
        self.onnx, self.ensemble, self.dtype, self.columns = onnx, ensemble, dtype, columns
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.has_text = False
        self.stem = "/"  # of inner names: no column has a name that begins so
        while any(name.startswith(self.stem) for name in ensemble.feature_names):
            self.stem += "/"

    def build(self, probabilities: bool) -> None:
        """Add all nodes."""
        ensemble = self.ensemble
        values = self.values(self.votes())
        total, scale = scaled_sum(ensemble)
        last = np.array([max(1, len(total.terms)) - 1])
        sums = self.add("CumSum", values, self.constant(np.array(1)))
        scores = self.add("Gather", sums, self.constant(last), axis=1)
        n_scores = len(ensemble.classes) if ensemble.is_multiclass else 1
        scores = self.add("Reshape", scores, self.constant(np.array([-1, n_scores])))
        self.label(scores)
        if scale != 1.0:
            scores = self.add("Mul", scores, self.constant(np.array([scale])))
        own = self.add("Cast", scores, to=self.type_of(self.dtype))
        self.output("scores", own, self.dtype, [n_scores])
        known = ["multinomial"] if ensemble.is_multiclass else LINKS
        if probabilities and ensemble.loss in known:
            self.probabilities(scores)

    # -- answers -----------------------------------------------------------------------

    def votes(self) -> str:
        """Add what answers the condition of each term, in their order: (n_rows, n_terms)."""
        terms = scaled_sum(self.ensemble)[0].terms
        atoms = dict.fromkeys(part for term in terms for part in _parts(term.condition))
        blocks: list[str] = []
        order: list[Any] = []
        cuts = [atom for atom in atoms if isinstance(atom, Stump)]
        gaps = [atom for atom in atoms if isinstance(atom, Missing)]
        sets = [atom for atom in atoms if isinstance(atom, CategorySet)]
        self.add_inputs()
        if cuts or not atoms:
            blocks.append(self.above(cuts or [Stump(0, 0.0)]))  # constants need the rows only
        if gaps:
            blocks.append(self.add("IsNaN", self.numbers([atom.feature for atom in gaps])))
        order += cuts + gaps
        for j in dict.fromkeys(atom.feature for atom in sets):
            own = [atom for atom in sets if atom.feature == j]
            blocks.append(self.inside(j, own))
            order += own
        answers = self.add("Concat", *blocks, axis=1) if len(blocks) > 1 else blocks[0]
        if not terms:
            return answers
        answers = self.turned(answers, order)
        places = {atom: place for place, atom in enumerate(order)}
        sides = [[places[_parts(term.condition)[side]] for term in terms] for side in (0, -1)]
        first, second = (
            self.add("Gather", answers, self.constant(np.array(side)), axis=1) for side in sides
        )
        return self.add("And", first, second)

    def turned(self, answers: str, atoms: Sequence[Any]) -> str:
        """Add the negation of conditions of polarity -1, which stand in conjunctions."""
        is_negative = np.array([[atom.polarity < 0 for atom in atoms]])
        if not is_negative.any():
            return answers
        return self.add("Xor", answers, self.constant(is_negative))

    def above(self, cuts: Sequence[Stump]) -> str:
        """Add which stumps see a number above their threshold."""
        x = self.numbers([cut.feature for cut in cuts])
        thresholds = [cut.threshold for cut in cuts]
        if self.dtype == np.float32:
            thresholds = list(map(float32_below, thresholds))
        table = np.array([thresholds], dtype=self.dtype)
        answers = self.add("Greater", x, self.constant(table))  # false where x is NaN
        is_up = np.array([[cut.missing_above for cut in cuts]])
        if not is_up.any():
            return answers
        missing = self.add("And", self.add("IsNaN", x), self.constant(is_up))
        return self.add("Or", answers, missing)

    def inside(self, j: int, sets: Sequence[CategorySet]) -> str:
        """Add which sets of categories of feature j a row is in."""
        known = self.ensemble.features[j].categories or ()
        table = np.zeros((len(known), len(sets)), dtype=np.float32)
        for k, atom in enumerate(sets):
            table[list(atom.codes), k] = 1
        is_known = self.add("Cast", self.one_hot(j, known), to=self.type_of(np.dtype("float32")))
        counts = self.add("MatMul", is_known, self.constant(table))
        return self.add("Greater", counts, self.constant(np.full((1, 1), 0.5, np.float32)))

    def one_hot(self, j: int, known: Sequence[Any]) -> str:
        """Add which category a row has: (n_rows, n_categories)."""
        codes = np.arange(len(known))[None]
        gaps = np.array([[label is None for label in known]])
        if not self.columns:
            given = self.numbers([j])
            own = self.add("Equal", given, self.constant(codes.astype(self.dtype)))
            return self.or_missing(own, given, gaps)
        name = self.ensemble.features[j].name
        if self.is_text(j):
            keys = ["" if label is None else str(label) for label in known]
            self.check_distinct(name, keys)
            self.has_text = True
            table = {"keys_strings": keys, "values_int64s": list(range(len(known)))}
            code = self.add("LabelEncoder", name, domain="ai.onnx.ml", default_int64=-1, **table)
            return self.add("Equal", code, self.constant(codes))
        labels = np.array([np.nan if label is None else label for label in known], self.dtype)
        self.check_distinct(name, labels.tolist())
        return self.or_missing(self.add("Equal", name, self.constant(labels[None])), name, gaps)

    def or_missing(self, answers: str, given: str, gaps: np.ndarray) -> str:
        """Add that NaN is the category of missing values, if there is one."""
        if not gaps.any():
            return answers
        is_gap = self.add("And", self.add("IsNaN", given), self.constant(gaps))
        return self.add("Or", answers, is_gap)

    def check_distinct(self, name: str, labels: list[Any]) -> None:
        """Refuse labels that an input cannot tell apart."""
        twice = [label for label in labels if labels.count(label) > 1]
        if twice:
            raise ValueError(
                f"categories of {name!r} must differ in an ONNX input, got {twice[0]!r} twice "
                "(a missing text is the empty one); use columns=False, where they are codes"
            )

    # -- inputs ------------------------------------------------------------------------

    def is_text(self, j: int) -> bool:
        """Tell whether a column holds text."""
        return any(isinstance(label, str) for label in self.ensemble.features[j].categories or ())

    def add_inputs(self) -> None:
        """Declare the inputs: one matrix, or the columns that are looked at."""
        features = self.ensemble.features
        own = self.type_of(self.dtype)
        make = self.onnx.helper.make_tensor_value_info
        if not self.columns:
            self.inputs.append(make("X", own, [None, len(features)]))
            return
        for j in self.ensemble.used_features:
            if not features[j].name:
                raise ValueError("names of columns must not be empty in ONNX, got ''")
            kind = self.onnx.TensorProto.STRING if self.is_text(j) else own
            self.inputs.append(make(features[j].name, kind, [None, 1]))

    def numbers(self, places: Sequence[int]) -> str:
        """Add a matrix of these columns."""
        if not self.columns:
            return self.add("Gather", "X", self.constant(np.array(places)), axis=1)
        names = [self.ensemble.features[j].name for j in places]
        return self.add("Concat", *names, axis=1) if len(names) > 1 else names[0]

    # -- outputs -----------------------------------------------------------------------

    def values(self, votes: str) -> str:
        """Add what each term adds to each score: (n_rows, n_terms, n_scores)."""
        total, _ = scaled_sum(self.ensemble)
        intercept = np.array(total.intercept)
        if not total.terms:
            up, down = intercept[None], intercept[None]
        else:
            up = np.array([term.values for term in total.terms])
            down = -up
            up[0], down[0] = intercept + up[0], intercept + down[0]
        votes = self.add("Unsqueeze", votes, self.constant(np.array([2])))
        return self.add("Where", votes, self.constant(up[None]), self.constant(down[None]))

    def label(self, scores: str) -> None:
        """Add the label of the winner."""
        if self.ensemble.is_multiclass:
            place = self.add("ArgMax", scores, axis=1, keepdims=0)
        else:
            is_second = self.add("Greater", scores, self.constant(np.zeros(1)))
            place = self.add("Cast", is_second, to=self.onnx.TensorProto.INT64)
            place = self.add("Reshape", place, self.constant(np.array([-1])))
        labels = np.array(self.ensemble.classes)
        chosen = self.add("Gather", self.constant(labels), place, axis=0)
        self.output("label", chosen, labels.dtype, [])

    def probabilities(self, scores: str) -> None:
        """Add the probabilities of the classes."""
        if self.ensemble.is_multiclass:
            found = self.add("Softmax", scores, axis=1)
        else:
            second = LINKS[self.ensemble.loss](self, scores)
            one = self.constant(np.ones(1))
            found = self.add("Concat", self.add("Sub", one, second), second, axis=1)
        own = self.add("Cast", found, to=self.type_of(self.dtype))
        self.output("probabilities", own, self.dtype, [len(self.ensemble.classes)])

    def clipped(self, f: str, sign: str) -> str:
        """Add 1 + f or 1 - f, at least 0 and at most 1."""
        return self.limited(self.add(sign, self.constant(np.ones(1)), f))

    def limited(self, f: str) -> str:
        """Add f, at least 0 and at most 1."""
        return self.add("Clip", f, self.constant(np.array(0.0)), self.constant(np.array(1.0)))

    # -- parts -------------------------------------------------------------------------

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of what it computes."""
        name = f"{self.stem}{len(self.nodes)}"
        node = self.onnx.helper.make_node(kind, list(inputs), [name], name=name, **attributes)
        self.nodes.append(node)
        return name

    def constant(self, array: Any) -> str:
        """Add a constant; return its name."""
        name = f"{self.stem}c{len(self.constants)}"
        array = np.asarray(array)
        array = array.astype(object) if array.dtype.kind == "U" else array
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def output(self, name: str, given: str, dtype: np.dtype, shape: list[int]) -> None:
        """Give a result to the outside."""
        taken = {feature.name for feature in self.ensemble.features} if self.columns else {"X"}
        while name in taken:
            name += "_"
        self.nodes.append(self.onnx.helper.make_node("Identity", [given], [name], name=name))
        kind = self.type_of(dtype)
        made = self.onnx.helper.make_tensor_value_info(name, kind, [None, *shape])
        self.outputs.append(made)

    def type_of(self, dtype: np.dtype) -> int:
        """Return ONNX's number of a type."""
        if dtype.kind == "U":
            return int(self.onnx.TensorProto.STRING)
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(dtype))

    def made(self) -> Any:
        """Return the finished graph."""
        return self.onnx.helper.make_graph(
            self.nodes, "ensemble", self.inputs, self.outputs, self.constants
        )


def _parts(condition: Any) -> tuple[Any, ...]:
    return condition.parts if isinstance(condition, Both) else (condition,)


def _hinge(graph: Graph, f: str) -> str:
    below, above = graph.clipped(f, "Sub"), graph.clipped(f, "Add")
    return graph.add("Div", above, graph.add("Add", below, above))


def _squared(graph: Graph, f: str) -> str:
    half = graph.constant(np.array([0.5]))
    shifted = graph.add("Add", graph.constant(np.ones(1)), f)
    return graph.limited(graph.add("Mul", shifted, half))


# The probability of the second of two classes at score f.
LINKS: dict[str, Any] = {
    "logistic": lambda graph, f: graph.add("Sigmoid", f),
    "exponential": lambda graph, f: graph.add("Sigmoid", graph.add("Add", f, f)),
    "squared": _squared,
    "smoothed_hinge": _hinge,
}
