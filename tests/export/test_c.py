"""C headers say what the library says, compiled by a real compiler."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from c_programs import SANITIZED, compiled, labels, run
from export_inputs import NASTY, ensembles, numbers_of, tricky_rows
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from totalqboost import Constant, Ensemble, Stump, TotalQBoostClassifier
from totalqboost.export.c import forms, to_c
from totalqboost.learners import Both, CategorySet, Feature, Fitted, Missing

FEW = settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(autouse=True)
def _tables_of_two(monkeypatch):
    """Tables of few rows, so that random ensembles have them."""
    monkeypatch.setattr(forms, "FEWEST", 2)


AIMS = st.sampled_from(["size", "speed"])


def random_stumps(seed: int, n: int = 20, n_features: int = 21) -> Ensemble:
    rng = np.random.default_rng(seed)
    learners = [
        Stump(int(rng.integers(n_features)), float(rng.normal()), int(rng.choice([-1, 1])))
        for _ in range(n)
    ]
    names = [f"x{j}" for j in range(n_features)]
    return Ensemble(learners, rng.random(n) + 0.05, 0.1, ("no", "yes"), names, "logistic")


def shared_classes(seed: int = 0, n: int = 9) -> Ensemble:
    rng = np.random.default_rng(seed)
    learners = [Stump(int(rng.integers(4)), float(rng.normal())) for _ in range(n)]
    sizes, votes = rng.random(n) + 0.1, rng.choice([-1.0, 1.0], (n, 4))
    weights = [tuple(size * own) for size, own in zip(sizes, votes, strict=True)]
    return Ensemble(learners, weights, (0.1, 0.2, 0.0, -0.1), "abcd", [*"wxyz"], "multinomial")


def agree(folder, model, header, X=None, **options):
    X = tricky_rows(model, 2000, np.float32) if X is None else X
    program = compiled(folder, header, X.shape[1], **options)
    wrong = np.flatnonzero(labels(program, X) != numbers_of(model, X))
    assert len(wrong) == 0, f"{X[wrong[0]]}\n{header}"


# -- floats ----------------------------------------------------------------------------------


@FEW
@given(ensembles(), AIMS)
def test_every_model_keeps_its_labels(tmp_path, model, optimize):
    agree(tmp_path, model, to_c(model, optimize=optimize, missing=True))


@pytest.mark.parametrize("optimize", ["size", "speed"])
@pytest.mark.parametrize("make", [random_stumps, shared_classes])
def test_a_hundred_thousand_rows_agree(tmp_path, make, optimize):
    model = make(0)
    header = to_c(model, optimize=optimize, missing=True)
    assert "for every input:" in header
    agree(tmp_path, model, header, tricky_rows(model, 100_000, np.float32), flags=("-O2",))


@FEW
@given(ensembles(), AIMS)
def test_shorter_headers_agree_where_nothing_is_missing(tmp_path, model, optimize):
    X = np.nan_to_num(tricky_rows(model, 2000, np.float32), nan=1.5, posinf=np.inf, neginf=-np.inf)
    header = to_c(model, optimize=optimize, missing=False)
    assert "NaN where" not in header
    agree(tmp_path, model, header, X)


def test_values_may_be_missing_if_they_were_in_training():
    def header(has_missing):
        columns = (Feature("a", has_missing=has_missing), Feature("b"))
        model = Ensemble((Stump(0, 1.0), Stump(1, 2.0)), (2.0, 1.0), features=columns)
        return to_c(model, optimize="speed")

    assert "_key" in header(True)
    assert "_key" not in header(False)


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
@pytest.mark.parametrize("optimize", ["size", "speed"])
def test_nothing_is_undefined(tmp_path, compiler, optimize):
    learners = (
        Stump(0, 0.25, 1, True),
        Stump(0, -0.5),
        Missing(0, -1),
        CategorySet(1, (0, 2, 40)),
        Both(Stump(2, 1.0, -1), CategorySet(1, (3,), -1)),
        Constant(-1),
        Stump(2, 7.0),
    )
    columns = (Feature("a"), Feature("b", tuple(range(50))), Feature("c"))
    model = Ensemble(learners, np.arange(1, 8) / 7.3, 0.1, features=columns)
    agree(tmp_path, model, to_c(model, optimize=optimize), compiler=compiler, flags=SANITIZED)


def test_tables_of_more_than_256_features_and_rows_agree(tmp_path):
    rng = np.random.default_rng(3)
    learners = [Stump(int(j), float(rng.normal())) for j in rng.choice(400, 300)]
    names = [f"x{j}" for j in range(400)]
    model = Ensemble(learners, rng.random(300) + 0.1, 0.0, features=names)
    header = to_c(model, missing=True)
    assert "may differ" in header  # nothing is claimed of more sums than can be looked at
    agree(tmp_path, model, header)
    agree(tmp_path, model, to_c(model, weights="int16"), X=rng.normal(size=(9, 400)).astype("f4"))


# -- what else the header has ----------------------------------------------------------------


def rejected_rows(model, data):
    """Return rows, their scores after each learner, and thresholds at some of these."""
    assume(not model.is_multiclass and model.n_learners)
    X = tricky_rows(model, 500, np.float32)
    votes = np.column_stack([h.predict(X) for h in model.learners])
    partial = model.intercept + np.cumsum(votes * np.array(model.weights), axis=1)
    places = st.sampled_from([*np.unique(partial), -np.inf, 0.0])
    thresholds = data.draw(st.tuples(*[places] * model.n_learners))
    return X, partial, thresholds


@FEW
@given(ensembles(numbers_only=True), AIMS, st.data())
def test_rejections_stop_where_partial_scores_are_below(tmp_path, model, optimize, data):
    X, partial, thresholds = rejected_rows(model, data)
    expected = (partial >= np.array(thresholds)).all(axis=1) & (partial[:, -1] > 0)
    header = to_c(model, optimize=optimize, rejections=thresholds, missing=True)
    program = compiled(tmp_path, header, X.shape[1])
    assert (labels(program, X) == expected).all(), header


def test_the_self_test_knows_rejections(tmp_path):
    model = random_stumps(4)
    X = np.nan_to_num(tricky_rows(model, 50, infinite=False))
    header = to_c(model, rejections=np.linspace(-1.0, 0.5, 20), test_rows=X)
    call, flags = "((void)x, model_self_test())", ("-DMODEL_SELF_TEST",)
    program = compiled(tmp_path, header, 21, flags=flags, call=call)
    assert labels(program, np.zeros(21, dtype=np.float32)).tolist() == [0]


def test_many_cuts_of_one_feature_are_not_nested_too_deeply(tmp_path):
    stumps = [Stump(0, float(t)) for t in range(40)]
    model = Ensemble(stumps, np.random.default_rng(0).random(40) + 0.1, -1.0, features=("x",))
    header = to_c(model, optimize="speed")
    assert "    " * 18 not in header
    agree(tmp_path, model, header, np.arange(-2, 42, 0.25, dtype=np.float32)[:, None])


LAZY = """
static unsigned int asked;
static float of(void *context, unsigned int index)
{
    asked++;
    return ((const float *)context)[index];
}
static int ask(float *x) { asked = 0U; return model_predict_lazy(of, x) + 2 * (int)asked; }
"""


def test_expensive_features_are_asked_for_last_and_only_if_they_matter(tmp_path):
    learners = (Stump(0, 0.0), Stump(1, 0.0), Stump(2, 0.0))
    model = Ensemble(learners, (1.0, 0.6, 0.5), 0.0, features=("dear", "cheap", "fair"))
    header = to_c(model, early_exit=True, feature_costs={"dear": 10.0})
    X = np.array([[1, 1, 1], [-1, 1, 1], [-1, 1, -1], [1, -1, 1]], dtype=np.float32)
    program = compiled(tmp_path, header, 3, call="ask(x)", before=LAZY)
    found = labels(program, X)
    assert (found % 2 == numbers_of(model, X)).all()
    assert (found // 2).tolist() == [2, 2, 3, 3]


@FEW
@given(ensembles(), st.randoms(use_true_random=False))
def test_asking_for_features_gives_the_same_labels(tmp_path, model, random):
    assume(not model.is_multiclass)
    costs = [random.random() + 0.01 for _ in model.features]
    header = to_c(model, early_exit=True, feature_costs=costs, missing=True)
    X = tricky_rows(model, 500, np.float32)
    program = compiled(tmp_path, header, X.shape[1], call="ask(x)", before=LAZY)
    assert (labels(program, X) % 2 == numbers_of(model, X)).all(), header


@pytest.mark.parametrize("loss", ["logistic", "exponential", "squared", "smoothed_hinge"])
def test_probabilities_are_near(tmp_path, loss):
    model = random_stumps(2)
    model = Ensemble(model.learners, model.weights, 0.1, (0, 1), model.features, loss)
    near_probabilities(tmp_path, model, "probability(x)", "uint16_t p = model_probability(x)", 1)


def test_probabilities_of_classes_are_near(tmp_path):
    call = "uint16_t p[4]; model_probabilities(x, p)"
    near_probabilities(tmp_path, shared_classes(), "probabilities(", call, 4)


def near_probabilities(folder, model, needle, call, n):
    header = to_c(model, probabilities=True)
    assert needle.split("(")[0] in header
    X = np.random.default_rng(0).normal(size=(2000, len(model.features))).astype(np.float32)
    program = compiled(folder, header, X.shape[1], write=(call, "p" if n > 1 else "&p", n))
    found = np.frombuffer(run(program, X), dtype=np.uint16).reshape(-1, n) / 2**15
    claimed = float(header.split("Probabilities are within ")[1].split()[0])
    assert claimed < 0.015
    assert np.abs(found - model.predict_proba(X)[:, -n:]).max() <= claimed


@pytest.mark.parametrize("input", ["float32", "int16", "uint8"])
@pytest.mark.parametrize("is_wrong", [False, True])
def test_the_self_test_finds_a_wrong_port(tmp_path, input, is_wrong):
    rows = np.random.default_rng(0).normal(size=(20, 21))
    header = to_c(random_stumps(4), input=input, weights="int16", test_rows=rows)
    if is_wrong:
        assert "_sum(x) < 0" in header
        header = header.replace("_sum(x) < 0", "_sum(x) > 0")
    kinds = {"float32": "float", "int16": "int16_t", "uint8": "uint8_t"}
    flags = ("-DMODEL_SELF_TEST",)
    call = "((void)x, model_self_test() != 0)"
    program = compiled(tmp_path, header, 21, kinds[input], flags, call=call)
    assert labels(program, np.zeros(21, dtype=input)).tolist() == [is_wrong]


# -- integers --------------------------------------------------------------------------------


@FEW
@given(ensembles(), AIMS, st.sampled_from(["int16", "uint8"]))
def test_integers_that_are_the_numbers_keep_their_labels(tmp_path, model, optimize, input):
    weights = "auto" if input == "int16" else "int32"  # those of uint8 inputs may be rounded
    header = to_c(model, input=input, optimize=optimize, weights=weights)
    low, high = (-(2**15), 2**15 - 1) if input == "int16" else (0, 255)
    rng = np.random.default_rng(0)
    gone = "model_MISSING".upper() in header
    X = rng.choice([low + gone, low + 2, -1, 0, 1, 5, 50, high], (500, len(model.features)))
    X = X.clip(low + gone, high).astype(float)
    Q = X.astype(input)
    for j, feature in enumerate(model.features):
        if feature.categories is not None:
            X[:, j] = rng.integers(-1, len(feature.categories), 500)
            Q[:, j] = np.where(X[:, j] < 0, high, X[:, j])
        elif gone:
            is_gone = rng.random(500) < 0.3
            X[is_gone, j], Q[is_gone, j] = np.nan, low
    kind = "int16_t" if input == "int16" else "uint8_t"
    program = compiled(tmp_path, header, X.shape[1], kind)
    assert (labels(program, Q) == numbers_of(model, X)).all(), header


def test_tables_and_comparisons_stand_side_by_side(tmp_path):
    learners = (Missing(0, -1), Stump(0, 0.0, -1), Stump(0, 1.0, -1), Stump(0, 2.0, 1, True))
    model = Ensemble(learners, (1.0, 3.0, 5.0, 2.0), 0.5, features=("x",))
    X = np.array([[np.nan], [-5.0], [1.0], [2.0], [3.0]])
    program = compiled(tmp_path, to_c(model, input="int16"), 1, "int16_t")
    Q = np.where(np.isnan(X), -(2**15), X).astype(np.int16)
    assert (labels(program, Q) == numbers_of(model, X)).all()


@pytest.mark.parametrize("input", ["int16", "uint8"])
def test_numbers_on_a_scale_differ_as_the_header_says(tmp_path, input):
    model = random_stumps(5)
    X = np.random.default_rng(1).normal(size=(3000, 21)).astype(np.float32)
    header = to_c(model, input=input, rows=X)
    kind = "int16_t" if input == "int16" else "uint8_t"
    inside = f"static {kind} q[21]; model_quantize(v, q); return model_predict(q);"
    before = f"static int both(const float *v) {{ {inside} }}"
    program = compiled(tmp_path, header, 21, call="both(x)", before=before)
    differ = int((labels(program, X) != numbers_of(model, X)).sum())
    assert f"on {differ} of 3000 rows" in header
    assert differ <= (3 if input == "int16" else 150)


@pytest.mark.parametrize(("input", "most"), [("int16", 0), ("uint8", 10)])
def test_scales_lie_over_the_cuts_and_outliers_do_not_matter(tmp_path, input, most):
    rng = np.random.default_rng(0)
    X = np.exp(2.5 * rng.normal(size=(3000, 4))).astype(np.float32)
    X[0] = 1e30
    learners = [Stump(0, 1.0), Stump(0, 2.5, -1), Stump(1, 0.5), Stump(2, 2.0)]
    model = Ensemble(learners, (1.0, 0.7, 0.4, 0.2), 0.05, features=("a", "b", "c", "d"))
    header = to_c(model, input=input, rows=X)
    inside = f"static {input}_t q[4]; model_quantize(v, q); return model_predict(q);"
    before = f"static int both(const float *v) {{ {inside} }}"
    program = compiled(tmp_path, header, 4, call="both(x)", before=before)
    differ = int((labels(program, X) != numbers_of(model, X)).sum())
    assert f"on {differ} of 3000 rows" in header
    assert differ <= most


def test_whole_numbers_in_the_rows_need_no_scale(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (500, 2)).astype(np.float32)
    model = Ensemble((Stump(0, 99.5), Stump(1, 7.5, -1)), (1.0, 0.7), features=("a", "b"))
    header = to_c(model, input="uint8", rows=X)
    assert "model_quantize" not in header
    assert "on 0 of 500 rows" in header
    program = compiled(tmp_path, header, 2, "uint8_t")
    assert (labels(program, X.astype(np.uint8)) == numbers_of(model, X)).all()


def test_a_cut_halfway_between_integers_of_a_range_parts_these():
    model = Ensemble((Stump(0, 2.5),), (1.0,), features=("a",))
    header = to_c(model, input="uint8", optimize="speed", ranges={"a": (0, 255)})
    assert re.search(r"> 2\)", header)  # 3 is above


def test_costs_are_checked_where_nothing_uses_them():
    with pytest.raises(ValueError, match=r"^feature_costs must name features"):
        to_c(random_stumps(0), feature_costs={"nobody": 1.0})


def test_ranges_give_scales_and_wrong_ones_are_refused():
    model = random_stumps(0, n=3, n_features=2)
    assert "model_quantize" in to_c(model, input="uint8", ranges={"x0": (0, 10), 1: (-5.0, 5.0)})
    assert "model_quantize" not in to_c(model, input="uint8")
    for ranges in ({"nobody": (0, 1)}, {"x0": (1, 1)}, {"x0": (0, np.inf)}, {7: (0, 1)}):
        with pytest.raises(ValueError, match=r"^ranges must"):
            to_c(model, input="uint8", ranges=ranges)
    with pytest.raises(ValueError, match=r"^ranges must be None for float32"):
        to_c(model, ranges={"x0": (0, 1)})


# -- wrong use -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "2a", "a b", "int", "class", "größe", "a;", "_a", "a\n", 3])
def test_names_that_are_none_are_refused(name):
    with pytest.raises(ValueError, match=r"^name must"):
        to_c(random_stumps(0), name=name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input": "double"}, "input must be one of"),
        ({"optimize": "beauty"}, "optimize must be one of"),
        ({"weights": "int4"}, "weights must be one of"),
        ({"rejections": [0.0]}, "rejections must be one number for each of the 20"),
        ({"rejections": [np.nan] * 20}, "rejections must be one number"),
        ({"rejections": [0.0] * 20, "early_exit": True}, "early_exit must be False with"),
        ({"rejections": [0.0] * 20, "probabilities": True}, "probabilities must be False with"),
        ({"early_exit": True, "feature_costs": [1.0]}, "feature_costs must have one number"),
        ({"early_exit": True, "feature_costs": {"no": 1.0}}, "feature_costs must name features"),
        ({"early_exit": True, "feature_costs": {"x1": 0.0}}, "feature_costs must be finite"),
    ],
)
def test_wrong_wishes_are_refused(options, message):
    with pytest.raises(ValueError, match=rf"^{message}"):
        to_c(random_stumps(0), **options)


def test_notes_are_a_mapping():
    with pytest.raises(TypeError, match=r"^notes must map names to what is noted, got 'text'"):
        to_c(random_stumps(0), notes="text")


def test_what_two_classes_have_is_refused_for_more():
    with pytest.raises(ValueError, match=r"^rejections must be for two classes"):
        to_c(shared_classes(), rejections=[0.0] * 9)
    with pytest.raises(ValueError, match=r"^early_exit must be False"):
        to_c(shared_classes(), early_exit=True)


def test_a_learner_of_ones_own_is_refused():
    with pytest.raises(TypeError, match="Fitted learner cannot be exported"):
        to_c(Ensemble((Fitted(0, None),), (1.0,), features=("x",)))


def test_codes_that_do_not_fit_are_refused():
    columns = (Feature("city", tuple(range(300))),)
    model = Ensemble((CategorySet(0, (1,)),), (1.0,), features=columns)
    with pytest.raises(ValueError, match="300 categories of feature 'city'"):
        to_c(model, input="uint8")


@pytest.mark.parametrize("text", NASTY)
def test_text_cannot_leave_its_comment(tmp_path, text):
    columns = (Feature(text, (text, "b", None)), Feature("x"))
    learners = (CategorySet(0, (0, 2)), Stump(1, 0.0))
    model = Ensemble(learners, (0.4, 0.3), 0.0, (text, "other"), columns)
    header = to_c(model, notes={text: text, "trained on": text}, missing=True)
    agree(tmp_path, model, header, flags=("-O0", "-trigraphs"))
    assert header.isascii()


@pytest.mark.parametrize("scale", [0.1, 0.3, 1.0])
def test_probabilities_of_points_lose_nothing_but_what_the_table_loses(tmp_path, scale):
    points = (31, 20, 17, 9, 5)  # with the intercept an odd sum, and with one more an even one
    for b in (3, 4):
        model = Ensemble(
            [Stump(j, 0.0) for j in range(5)],
            [scale * p for p in points],
            scale * b,
            (0, 1),
            [*"abcde"],
            "logistic",
            scale,
        )
        call = "uint16_t p = model_probability(x)"
        near_probabilities(tmp_path, model, "probability(x)", call, 1)


@FEW
@given(ensembles(numbers_only=True), AIMS, st.data())
def test_a_detector_takes_what_no_threshold_rejects(tmp_path, model, optimize, data):
    X, partial, thresholds = rejected_rows(model, data)
    expected = (partial >= np.array(thresholds)).all(axis=1)
    header = to_c(model, optimize=optimize, rejections=thresholds, detector=True, missing=True)
    program = compiled(tmp_path, header, X.shape[1])
    assert (labels(program, X) == expected).all(), header


@pytest.mark.parametrize("optimize", ["size", "speed"])
def test_what_every_integer_answers_counts_after_its_own_place(tmp_path, optimize):
    model = Ensemble((Stump(0, 5.0), Stump(1, -1e6), Stump(1, 5.0)), (1.0, 2.0, 1.0), 0.0, (0, 1))
    header = to_c(model, input="int16", optimize=optimize, rejections=(0.0, -9.0, 2.5))
    X = np.array([[0, 9], [9, 0], [9, 9]], dtype=np.int16)
    program = compiled(tmp_path, header, 2, "int16_t")
    assert labels(program, X).tolist() == [0, 0, 1]


def test_an_empty_model_speaks_of_no_test():
    assert "self_test" not in to_c(Ensemble((), (), 0.3))


@pytest.mark.parametrize("optimize", ["size", "speed"])
@pytest.mark.parametrize("input", ["float32", "int16", "uint8"])
@pytest.mark.parametrize("is_asked", [False, True])  # whether missing cities are in the set
def test_a_missing_category_may_be_written_as_a_missing_number(tmp_path, input, optimize, is_asked):
    columns = (Feature("a", None, True), Feature("city", ("Bern", "Basel", None)))
    learners = CategorySet(1, (0, 2) if is_asked else (0,), -1), Stump(0, 1.0)
    model = Ensemble(learners, (1.0, 0.3), 0.0, (0, 1), columns)
    X = np.array([[0, 0], [0, np.nan], [5, 2], [5, 1], [5, np.nan]], dtype=np.float32)
    expected = numbers_of(model, np.where(np.isnan(X) & [False, True], 2, X))
    if input == "float32":
        agreed = labels(compiled(tmp_path, to_c(model, optimize=optimize), 2), X)
        assert (agreed == expected).all()
        return
    kind = {"int16": "int16_t", "uint8": "uint8_t"}[input]
    header = to_c(model, input=input, optimize=optimize, ranges={"a": (0.0, 10.0)})
    quantized = f"{kind} q[2]; int ask(const float *x) {{ model_quantize(x, q); return "
    before = quantized + "model_predict(q); }"
    assert (
        labels(compiled(tmp_path, header, 2, call="ask(x)", before=before), X) == expected
    ).all()
    if input == "int16":
        header = to_c(model, input=input, optimize=optimize)
        Q = np.where(np.isnan(X), -(2**15), X).astype(np.int16)
        assert (labels(compiled(tmp_path, header, 2, kind), Q) == expected).all()


def test_a_header_tells_of_the_training():
    X = np.random.default_rng(0).normal(size=(80, 3))
    clf = TotalQBoostClassifier(max_learners=2, n_bits=4, certify=True).fit(X, X[:, 0] > X[:, 1])
    header = to_c(clf, notes={"place": "Bern"})
    assert header == to_c(clf.ensemble_, notes={"place": "Bern"})
    assert " * training data: 80 rows, 3 features\n" in header
    assert f" * objective: {clf.solution_.objective:.6g}, the mean logistic loss and " in header
    assert f" is below {clf.solution_.bound:.6g} (gap " in header
    assert (" * integers: proved" in header) == (clf.integers_.status == "optimal")
    assert " * place: Bern\n" in header
    several = TotalQBoostClassifier(max_learners=2).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    header = to_c(several)
    assert " * training data: 80 rows, 3 features\n" in header
    assert "objective" not in header
    assert "training data" not in to_c(replace(clf.ensemble_, training=None))
