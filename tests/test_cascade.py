"""CascadeClassifier: scikit-learn's manners, thresholds that keep their promise, clear errors."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from c_programs import compiled
from c_programs import run as run_program
from scipy import sparse
from scipy.stats import binom
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from totalqboost import Cascade, CascadeClassifier, CascadeFileError, TotalQBoostClassifier
from totalqboost.cascade import Stage, stages
from totalqboost.cascade.bounds import (
    allowed_misses,
    lower_bound,
    positives_needed,
    upper_bound,
)
from totalqboost.cascade.model import partial_scores
from totalqboost.cascade.order import best_order, expected_cost
from totalqboost.cascade.traces import Traces, loosened
from totalqboost.datasets import make_rare_event, make_twonorm
from totalqboost.ensemble import Ensemble
from totalqboost.learners import Stump

FEW_ROWS = {"min_recall": 0.9, "confidence": 0.05, "held_out": 0.5}  # one positive will do


@parametrize_with_checks(
    [
        CascadeClassifier(**FEW_ROWS),
        CascadeClassifier(kind="stages", stage_sizes=(5,), **FEW_ROWS),
    ]
)
def test_scikit_learn_finds_nothing_to_complain_about(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else one check skips itself
    check(estimator)


def small(n_learners=6, **settings):
    return TotalQBoostClassifier(max_learners=n_learners, class_weight="balanced", **settings)


def data(n_rows=3000, seed=0, positive_rate=0.2, n_features=8):
    return make_rare_event(n_rows, positive_rate, seed, n_features)


@pytest.fixture(scope="module")
def soft():
    return CascadeClassifier(small(), min_recall=0.9).fit(*data())


@pytest.fixture(scope="module")
def staged():
    sizes = (1, 2, 3)
    return CascadeClassifier(small(), kind="stages", stage_sizes=sizes, min_recall=0.9).fit(*data())


# -- the binomial bound --------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 20, 59, 137, 1000])
@pytest.mark.parametrize(("recall", "confidence"), [(0.5, 0.9), (0.9, 0.95), (0.99, 0.99)])
def test_as_many_misses_are_allowed_as_the_binomial_law_says(n, recall, confidence):
    by_hand = max(
        (k for k in range(n + 1) if binom.cdf(k, n, 1 - recall) <= 1 - confidence), default=-1
    )
    assert allowed_misses(n, recall, confidence) == by_hand


@pytest.mark.parametrize("n_cuts", [1, 2, 5])
def test_fewest_positives_that_are_enough(n_cuts):
    n = positives_needed(0.9, 0.95, n_cuts)
    assert allowed_misses(n, 0.9, 0.95) == n_cuts - 1
    assert allowed_misses(n - 1, 0.9, 0.95) < n_cuts - 1


def test_clopper_pearson_is_where_the_tail_has_the_given_size():
    low, high = lower_bound(90, 100, 0.95), upper_bound(10, 100, 0.95)
    assert binom.sf(89, 100, low) == pytest.approx(0.05)
    assert binom.cdf(10, 100, high) == pytest.approx(0.05)
    assert lower_bound(0, 10, 0.95) == 0.0
    assert upper_bound(10, 10, 0.95) == 1.0


# -- traces ----------------------------------------------------------------------------------


def walks(n, seed, n_steps=6):
    """Partial scores of rows that rise on average."""
    steps = np.random.default_rng(seed).choice([-1.0, 1.0], size=(n_steps, n), p=[0.3, 0.7])
    return (steps * np.arange(n_steps, 0, -1)[:, None]).cumsum(axis=0)


def test_a_level_is_the_highest_one_whose_thresholds_accept_the_row():
    traces, rows = Traces(walks(40, 0), 0.9), walks(300, 1)
    levels = traces.levels(rows)
    for level in np.unique(levels):
        accepts = (rows >= traces.thresholds(level)[:, None] - 1e-12).all(axis=0)
        np.testing.assert_array_equal(accepts, levels >= level - 1e-12)


def test_a_higher_level_has_higher_thresholds():
    traces = Traces(walks(40, 0), 0.9)
    thresholds = np.array([traces.thresholds(level) for level in np.linspace(-30, 25, 100)])
    assert (np.diff(thresholds, axis=0) >= 0).all()


@pytest.mark.parametrize("n_train", [3, 30, 1000])
def test_the_whole_detector_keeps_its_recall_as_often_as_promised(n_train):
    """Exact: levels are order statistics of one number per row, whatever the traces are."""
    recall, confidence, n, n_runs = 0.9, 0.8, 60, 400
    k = allowed_misses(n, recall, confidence)
    fresh, misses = walks(20_000, 999), 0
    for run in range(n_runs):
        traces = Traces(walks(n_train, 2 * run), recall)
        level = np.sort(traces.levels(walks(n, 2 * run + 1)))[k]
        accepts = (fresh >= traces.thresholds(level)[:, None] - 1e-9).all(axis=0)
        misses += accepts.mean() < recall
    assert misses <= binom.ppf(0.9999, n_runs, 1 - confidence)


def test_thresholds_stand_in_gaps_and_those_that_reject_nothing_are_left_out():
    partial = np.array([[1.0, 2.0, 3.0], [0.0, 4.0, 2.0]])
    assert loosened(np.array([1.0, 2.0]), partial) == (-np.inf, 1.0)
    first, last = loosened(np.array([3.0, 0.0]), partial)
    assert first == 2.5
    assert -1e-6 < last < 0.0


# -- order -----------------------------------------------------------------------------------


def test_the_order_is_not_dearer_than_heaviest_first_and_pays_features_once():
    rng = np.random.default_rng(0)
    y = rng.random(600) < 0.3
    votes = np.where(rng.random((5, 600)) < np.where(y, 0.95, 0.3), 1.0, -1.0)
    votes *= np.array([1.0, 0.9, 0.8, 0.7, 0.6])[:, None]
    reads = [(0,), (1,), (2,), (0,), (3,)]
    costs = np.array([50.0, 0.0, 0.0, 0.0])
    order = best_order(votes, y, reads, costs, 0.9)
    assert sorted(order) == list(range(5))
    kept = votes[:, y]
    plain = expected_cost(list(range(5)), kept, votes[:, ~y], reads, costs)
    assert expected_cost(order, kept, votes[:, ~y], reads, costs) <= plain
    assert order[0] not in (0, 3)  # the dear feature comes late
    nothing_rejected = expected_cost([0, 3, 1, 2, 4], -np.ones((5, 1)), votes, reads, costs)
    assert nothing_rejected == pytest.approx(55.0)


def test_feature_costs_of_the_estimator_decide_the_order():
    X, y = data()
    costs = np.zeros(8)
    free = CascadeClassifier(small(), min_recall=0.9).fit(X, y)
    first = free.ensemble_.learners[0].feature
    costs[first] = 3.0
    dear = CascadeClassifier(small(feature_costs=costs), min_recall=0.9).fit(X, y)
    assert dear.ensemble_.learners[0].feature != first


# -- the detector ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["soft", "staged"])
def test_rows_are_rejected_as_the_thresholds_say(kind, request):
    detector = request.getfixturevalue(kind)
    X, _ = data(seed=5)
    found, n_evaluated = np.ones(len(X), bool), np.zeros(len(X), int)
    for i, x in enumerate(X):
        for stage in detector.cascade_.stages:
            score = stage.ensemble.intercept
            for learner, weight, least in zip(
                stage.ensemble.learners, stage.ensemble.weights, stage.rejections, strict=True
            ):
                score += weight * int(learner.predict(x[None])[0])
                n_evaluated[i] += found[i]
                found[i] &= score >= least
    np.testing.assert_array_equal(detector.predict(X), np.where(found, 1, -1))
    np.testing.assert_array_equal(detector.learners_evaluated(X), n_evaluated)
    np.testing.assert_array_equal(detector.decision_function(X) >= 0, found)


@pytest.mark.parametrize("kind", ["soft", "staged"])
def test_it_detects_and_most_negatives_are_cheap(kind, request):
    detector = request.getfixturevalue(kind)
    assert detector.n_learners_ == 6
    assert detector.mean_learners_evaluated_ < 4.5
    certificate = detector.certify(*data(20_000, seed=3))
    assert certificate.recall >= 0.9
    assert certificate.false_positive_rate < 0.15
    assert certificate.false_positive_rate == pytest.approx(detector.false_positive_rate_, abs=0.05)
    assert certificate.mean_learners_evaluated == pytest.approx(
        detector.mean_learners_evaluated_, abs=0.3
    )
    assert certificate.recall_bound < certificate.recall
    assert certificate.n_positives + certificate.n_negatives == 20_000
    assert f"recall {certificate.recall:.4f}" in str(certificate)


@pytest.mark.parametrize("kind", ["soft", "staged"])
def test_held_out_positives_that_are_missed_are_not_more_than_allowed(kind, request):
    fitted = request.getfixturevalue(kind)
    X, y = data()
    X_valid, y_valid = data(seed=8)
    detector = clone(fitted).fit(X, y, X_valid=X_valid, y_valid=y_valid)
    missed = (detector.predict(X_valid[y_valid > 0]) < 0).sum()
    assert detector.n_positives_ == (y_valid > 0).sum() == 600
    assert missed <= detector.n_missed_ == allowed_misses(600, 0.9, 0.95)
    assert missed >= detector.n_missed_ / 2  # ties, and gaps below thresholds


def test_probabilities_follow_the_decision(soft):
    X, _ = data(seed=5)
    p, margin = soft.predict_proba(X)[:, 1], soft.decision_function(X)
    assert (np.diff(p[np.argsort(margin)]) >= 0).all()
    found = margin >= 0
    np.testing.assert_allclose(p[found], soft.ensemble_.predict_proba(X)[found, 1])


def test_later_stages_are_trained_on_what_earlier_ones_let_pass():
    X, y = data()
    sizes = (2, 2, 3)
    seen = []

    class Spy(TotalQBoostClassifier):
        def fit_examples(self, examples, on_event=None):
            seen.append(examples)
            super().fit_examples(examples, on_event)

    spy = Spy(max_learners=9, class_weight="balanced")
    detector = CascadeClassifier(spy, kind="stages", stage_sizes=sizes, min_recall=0.9).fit(X, y)
    assert [stage.ensemble.n_learners for stage in detector.cascade_.stages] == [2, 2, 3]
    n_negatives = [(e.y < 0).sum() for e in seen]
    assert n_negatives[0] > n_negatives[2]
    assert n_negatives[1] >= n_negatives[2]
    first = Cascade(detector.cascade_.stages[:1])
    assert (first.margins(seen[1].X[seen[1].y < 0])[0] >= 0).all()
    for examples in seen:
        assert examples.weight[examples.y > 0].sum() == pytest.approx(0.5)


@pytest.mark.parametrize("source", ["generator", "callable", "list"])
def test_fresh_negatives_fill_up_later_stages(source):
    X, y = data(2000)
    blocks = [block[labels < 0] for block, labels in (data(1500, seed) for seed in range(10, 16))]
    asked = []

    def give():
        asked.append(0)
        for block in blocks:
            asked[-1] += 1
            yield block

    negatives = {"generator": give(), "callable": give, "list": blocks}[source]
    detector = CascadeClassifier(small(), kind="stages", stage_sizes=(2, 4), min_recall=0.9)
    plain = clone(detector).fit(X, y)
    detector.fit(X, y, negatives=negatives)
    assert detector.cascade_.stages[0] == plain.cascade_.stages[0]
    assert detector.cascade_.stages[1] != plain.cascade_.stages[1]
    if source != "list":
        assert len(asked) == 1
        assert asked[0] >= 2


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, sparse.csr_matrix])
def test_a_table_of_negatives_is_one_block(make):
    X, y = data(2000)
    more, labels = data(3000, 10)
    more = more[labels < 0]
    given = [X, more] if make is np.asarray else [make(X), make(more)]
    detector = CascadeClassifier(small(), kind="stages", stage_sizes=(2, 4), min_recall=0.9)
    in_list = clone(detector).fit(given[0], y, negatives=[given[1]])
    assert detector.fit(given[0], y, negatives=given[1]).cascade_ == in_list.cascade_


def test_negatives_that_never_pass_are_not_read_for_ever(monkeypatch):
    monkeypatch.setattr(stages, "MOST_IN_VAIN", 500)
    X, y = data(2000)
    detector = CascadeClassifier(small(), kind="stages", stage_sizes=(2, 4), min_recall=0.9)
    plain = clone(detector).fit(X, y)
    first = Cascade(plain.cascade_.stages[:1])
    easy = X[first.margins(X)[0] < 0][:50]
    n_read = []

    def forever():
        while len(n_read) < 99:
            n_read.append(len(easy))
            yield easy

    with pytest.warns(UserWarning, match="negatives: 500 rows in a row did not pass stage 1"):
        detector.fit(X, y, negatives=forever())
    assert sum(n_read) == 500
    assert detector.cascade_ == plain.cascade_
    with pytest.raises(ValueError, match="negatives must be blocks with rows, got none in block 2"):
        detector.fit(X, y, negatives=[easy, easy[:0]])


def test_the_guarantee_is_for_all_stages_together(staged):
    n = 180
    assert staged.n_positives_ == n
    assert staged.n_missed_ == allowed_misses(n, 0.9, 0.95)


def test_tables_of_all_kinds():
    X, y = data(1500)
    detector = CascadeClassifier(small(3), min_recall=0.8)
    plain = clone(detector).fit(X, y)
    for kind in ("soft", "stages"):
        detector = clone(detector).set_params(kind=kind, stage_sizes=(1, 2))
        names = [f"f{j}" for j in range(8)]
        frame = pd.DataFrame(X, columns=names)
        frame["where"] = np.where(X[:, 0] > 2, "here", "there")
        frame.iloc[:50, 3] = np.nan
        detector.fit(frame, np.where(y > 0, "yes", "no"))
        assert set(detector.predict(frame)) == {"yes", "no"}
        assert detector.feature_names_in_.tolist() == [*names, "where"]
        thin = sparse.csr_matrix(np.where(X > 1, X, 0.0))
        dense = clone(detector).fit(thin.toarray(), y)
        np.testing.assert_array_equal(
            clone(detector).fit(thin, y).predict(thin), dense.predict(thin)
        )
    again = pickle.loads(pickle.dumps(plain))
    np.testing.assert_array_equal(again.decision_function(X), plain.decision_function(X))


def test_a_detector_that_learns_nothing_accepts_everything():
    X, y = np.zeros((200, 2)), np.repeat([0, 1], 100)
    with pytest.warns(UserWarning, match="no weak classifier tells the two classes apart"):
        detector = CascadeClassifier(min_recall=0.8).fit(X, y)
    assert detector.predict(X).all()


# -- wrong use -------------------------------------------------------------------------------


def test_too_few_positives_are_refused_with_the_number_that_is_needed():
    X, y = data(400, positive_rate=0.1)
    with pytest.raises(
        ValueError, match=r"needs at least 299 held-out positives, got 12 .* 997 po"
    ):
        CascadeClassifier(min_recall=0.99).fit(X, y)
    with pytest.raises(ValueError, match="with 4 stages needs at least 153 held-out positives"):
        CascadeClassifier(kind="stages").fit(X, y)
    with pytest.raises(ValueError, match=r"got 40 \(X_valid\); give y_valid 59 positives or more"):
        CascadeClassifier().fit(X, y, X_valid=X, y_valid=y)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"kind": "hard"}, "kind must be one of"),
        ({"min_recall": 1.0}, "min_recall must be a number between 0 and 1, got 1.0"),
        ({"confidence": 0}, "confidence must be a number between 0 and 1, got 0"),
        ({"held_out": "half"}, "held_out must be a number between 0 and 1, got 'half'"),
        ({"stage_sizes": ()}, "stage_sizes must be a sequence of integers"),
        ({"stage_sizes": None}, "stage_sizes must be a sequence of integers >= 1, got None"),
        ({"stage_sizes": (2, 0)}, "stage_sizes must be an integer >= 1, got 0"),
        ({"estimator": "stumps"}, "estimator must be a TotalQBoostClassifier or None, got a str"),
        ({"estimator": TotalQBoostClassifier(tol=-1)}, "tol must be"),
    ],
)
def test_bad_settings_are_named(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        CascadeClassifier(**settings).fit(*data(1000))


def test_bad_rows_are_named(soft):
    X, y = data(600, positive_rate=0.5)
    with pytest.raises(ValueError, match="negatives are for kind='stages'"):
        CascadeClassifier().fit(X, y, negatives=[X])
    with pytest.raises(ValueError, match="negatives must be a table, an iterable of tables"):
        CascadeClassifier(kind="stages", min_recall=0.8).fit(X, y, negatives=3)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        CascadeClassifier().fit(X, np.arange(600) % 3)
    with pytest.raises(ValueError, match="y must hold labels of training"):
        soft.certify(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="y must have one label per row"):
        soft.certify(X, y[:5])


def test_a_fit_that_fails_leaves_the_detector_as_it_was():
    X, y = data(1500)
    detector = CascadeClassifier(small(3), min_recall=0.8).fit(X, y)
    before = detector.cascade_
    with pytest.raises(ValueError, match="needs at least"):
        detector.set_params(min_recall=0.999).fit(X[:, :3], y)
    assert detector.cascade_ is before
    assert detector.n_features_in_ == 8


def test_class_weights_without_effect_are_told():
    X, y = make_twonorm(600, seed=1)
    weight = {-1: 1.0, 1: 20.0}
    exponential = {"loss": "exponential", "l1_penalty": 0.0, "tol": 1e-8, "exchange": False}
    weighted = TotalQBoostClassifier(0.0, max_rounds=4, class_weight=weight, **exponential)
    with pytest.warns(UserWarning, match="class_weight=.* has no effect on which weak classifiers"):
        detector = CascadeClassifier(weighted, min_recall=0.8).fit(X, y)
    plain = CascadeClassifier(clone(weighted).set_params(class_weight=None), min_recall=0.8)
    plain.fit(X, y)
    stumps = [{repr(h) for h in d.ensemble_.learners} for d in (detector, plain)]
    assert stumps[0] == stumps[1]
    np.testing.assert_allclose(
        sorted(detector.ensemble_.weights), sorted(plain.ensemble_.weights), rtol=1e-4
    )


# -- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["soft", "staged"])
def test_a_saved_detector_is_the_same(kind, request, tmp_path):
    detector = request.getfixturevalue(kind)
    detector.save(tmp_path / "detector.json")
    loaded = Cascade.load(tmp_path / "detector.json")
    assert loaded == detector.cascade_
    X, _ = data(seed=2)
    np.testing.assert_array_equal(loaded.predict(X), detector.predict(X))


def changed(content, path, value):
    content = json.loads(json.dumps(content))
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return content


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (["format"], "pickle", "not a TotalQBoost cascade"),
        (["schema_version"], 2, "schema_version 2 is not supported"),
        (["schema_version"], True, "schema_version True is not supported"),
        (["stages"], {}, "stages must be a list"),
        (["stages"], [], "stages must be at least one"),
        (["stages", 0], 1, "a stage must be an object"),
        (["stages", 0, "rejections"], "no", "rejections must be a list"),
        (["stages", 0, "rejections"], [0.0], "rejections must have one value for each learner"),
        (["stages", 0, "rejections", 1], "x", "rejections must be finite numbers or null"),
        (["stages", 0, "rejections", 1], 10**400, "rejections must be finite numbers or null"),
        (["stages", 0, "rejections", -1], None, "the last one finite"),
        (["stages", 0, "ensemble"], {}, "not a TotalQBoost ensemble"),
        (["stages", 0, "ensemble", "intercept"], "b", "intercept must be a finite number"),
    ],
)
def test_a_damaged_file_is_refused(soft, tmp_path, path, value, complaint):
    file = tmp_path / "detector.json"
    file.write_text(json.dumps(changed(soft.cascade_.to_dict(), path, value)))
    with pytest.raises(CascadeFileError, match=rf"detector.json: cannot .*{complaint}"):
        Cascade.load(file)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("[" * 100_000, "brackets are nested too deeply"), ('{"a": 1, "a": 2}', "'a' occurs twice")],
)
def test_odd_json_is_refused(tmp_path, content, complaint):
    (tmp_path / "detector.json").write_text(content)
    with pytest.raises(CascadeFileError, match=rf"detector.json: cannot .*{complaint}"):
        Cascade.load(tmp_path / "detector.json")


def test_stages_must_belong_together():
    one = Stage(Ensemble((Stump(0, 0.0),), (1.0,), features=("a",)), (0.0,))
    other = Stage(Ensemble((Stump(0, 0.0),), (1.0,), features=("b",)), (0.0,))
    with pytest.raises(ValueError, match="the same classes, features and loss"):
        Cascade((one, other))
    with pytest.raises(ValueError, match="two classes to detect one, got 3"):
        Stage(Ensemble((Stump(0, 0.0),), ((1.0, 0.0, 0.0),), classes=(0, 1, 2)), (0.0,))


def test_partial_scores_end_in_the_score(soft):
    X, _ = data(seed=4)
    partial = partial_scores(soft.ensemble_, X)
    np.testing.assert_allclose(partial[-1], soft.ensemble_.scores(X))


# -- as C ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["soft", "staged"])
@pytest.mark.parametrize("aim", ["size", "speed"])
def test_the_header_detects_what_the_library_does(kind, aim, request, tmp_path):
    detector = request.getfixturevalue(kind)
    X = data(4000, seed=6)[0].astype(np.float32)
    cuts = [h for stage in detector.cascade_.stages for h in stage.ensemble.learners]
    for row, stump in enumerate(cuts * 20):  # at thresholds, and next to them
        at = np.float32(stump.threshold)
        near = [at, np.nextafter(at, np.float32(9e9)), np.nextafter(at, np.float32(-9e9)), np.nan]
        X[row, stump.feature] = near[(row // len(cuts)) % 4]
    program = compiled(tmp_path, detector.to_c("model", optimize=aim, missing=True), X.shape[1])
    labels = np.frombuffer(run_program(program, X), dtype=np.uint8)
    found = detector.cascade_.evaluate(X)[0] >= 0
    np.testing.assert_array_equal(labels.astype(bool), found)
    assert 0 < labels.mean() < 1


def skewed(n_rows, seed):
    """Rows whose values span orders of magnitude: most lie in a small part of their range."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n_rows) < 0.1).astype(int)
    return np.exp(2.5 * rng.normal(size=(n_rows, 6)) + 1.5 * y[:, None]).astype(np.float32), y


@pytest.mark.parametrize("kind", ["soft", "stages"])
@pytest.mark.parametrize("input", ["uint8", "int16"])
def test_a_header_of_integers_counts_what_differs_and_does_not_repeat_the_promise(
    kind, input, tmp_path
):
    X, y = skewed(6000, 0)
    detector = CascadeClassifier(small(), kind=kind, stage_sizes=(2, 3), min_recall=0.9).fit(X, y)
    fresh = skewed(4000, 1)[0]
    header = detector.to_c("model", input=input, rows=fresh)
    inside = f"static {input}_t q[6]; model_quantize(v, q); return model_predict(q);"
    before = f"static int both(const float *v) {{ {inside} }}"
    program = compiled(tmp_path, header, 6, call="both(x)", before=before)
    labels = np.frombuffer(run_program(program, fresh), dtype=np.uint8)
    differ = int((labels != (detector.predict(fresh) == 1)).sum())
    assert f"Labels differ from those of the library on {differ} of 4000 rows" in header
    assert differ <= (40 if input == "uint8" else 4)
    assert "not promised of integers on scales" in header
    assert "not promised" not in detector.to_c("model", input=input)  # integers as they are


def test_the_test_of_stages_asks_all_of_them(staged, tmp_path):
    header = "#define MODEL_SELF_TEST\n" + staged.to_c("model")
    n = staged.n_features_in_
    right = compiled(tmp_path, header, n, call="model_self_test()")
    assert list(run_program(right, zeros(n))) == [0]
    begins = "_predict(const float *x)\n{"
    rejecting = header.replace(begins, f"{begins} return 0;", 1)
    wrong = compiled(tmp_path, rejecting, n, call="model_self_test()", flags=("-w",))
    assert list(run_program(wrong, zeros(n))) != [0]


def zeros(n_features):
    return np.zeros((1, n_features), dtype=np.float32)


def test_scores_that_are_a_threshold_but_for_rounding_pass_the_test_of_the_header(tmp_path):
    model = Ensemble((Stump(0, 0.0), Stump(1, 0.0)), (1.0, 1.0), 0.1, features=("a", "b"))
    header = Cascade((Stage(model, (-np.inf, 0.1 + 1 - 1)),)).to_c("model")
    program = compiled(tmp_path, "#define MODEL_SELF_TEST\n" + header, 2, call="model_self_test()")
    assert list(run_program(program, zeros(2))) == [0]


def test_certificates_need_positives(soft):
    X, y = data(seed=4)
    is_other = y == soft.classes_[0]
    with pytest.raises(ValueError, match=r"y must have rows of 1, the class that is detected"):
        soft.certify(X[is_other], y[is_other])


def test_options_that_a_cascade_cannot_have_are_refused(soft):
    with pytest.raises(ValueError, match="early_exit must not be given for a cascade"):
        soft.to_c(early_exit=True)


@pytest.mark.parametrize("aim", ["size", "speed"])
@pytest.mark.parametrize("scale", [None, 0.25])
def test_scores_at_and_beside_thresholds_of_stages_are_kept(aim, scale, tmp_path):
    names = ("a", "b")
    one, other = (
        Ensemble((Stump(0, 0.0), Stump(1, 0.0)), w, 0.0, (0, 1), names, scale=scale)
        for w in ((0.5, 0.25), (0.25, 0.5))
    )
    X = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=np.float32)
    for threshold in (0.25, 0.3, -0.25):  # at a score, off the grid of points, below 0
        last = Stage(one, (-np.inf, threshold))
        for own in ((last,), (last, Stage(other, (-np.inf, -0.25)))):
            cascade = Cascade(own)
            header = cascade.to_c("model", optimize=aim)
            labels = run_program(compiled(tmp_path, header, 2), X)
            assert list(labels) == cascade.predict(X).tolist()
            assert "stage1.h" not in header
            assert ("model.h, stage 2 of 2: " in header) == (len(own) == 2)


def test_headers_of_stages_of_points_keep_every_label(tmp_path):
    X, y = data()
    detector = CascadeClassifier(
        small(n_bits=3), kind="stages", stage_sizes=(2, 3), min_recall=0.8
    ).fit(X, y)
    X = data(4000, seed=6)[0].astype(np.float32)
    found = run_program(compiled(tmp_path, detector.to_c("model"), X.shape[1]), X)
    np.testing.assert_array_equal(np.frombuffer(found, dtype=np.uint8), detector.predict(X) == 1)
