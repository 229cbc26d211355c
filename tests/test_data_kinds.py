"""Tables of all kinds, from fit to predictions of a saved model."""

from __future__ import annotations

import datetime
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from command_line import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from totalqboost import Ensemble, TotalQBoostClassifier, TotalQBoostClassifierCV, frontier

N = 300


def people(seed=0):
    """Age and town decide, each with gaps; the rest is noise."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, N).round(1),
            "town": rng.choice(["Rome", "Oslo", "Bonn", "Lima"], N),
            "grade": pd.Categorical(rng.choice(["lo", "mid", "hi"], N), ["lo", "mid", "hi"]),
            "is_new": rng.random(N) < 0.5,
            "count": pd.array(rng.integers(0, 5, N), dtype="Int64"),
            "same": 7,
        }
    )
    frame.loc[rng.random(N) < 0.1, "age"] = None
    frame.loc[rng.random(N) < 0.1, "town"] = None
    frame.loc[rng.random(N) < 0.1, "count"] = pd.NA
    score = (frame["age"].fillna(60) > 52).astype(int) + 2 * frame["town"].isin(["Oslo", "Lima"])
    noise = rng.random(N) < 0.05
    return frame, np.where((score >= 2) ^ noise, "yes", "no")


def classifier(**settings):
    return TotalQBoostClassifier(max_learners=5, **settings)


@pytest.fixture(scope="module")
def fitted():
    frame, y = people()
    return classifier().fit(frame, y)


def test_text_and_gaps_are_learned_from(fitted):
    frame, y = people(1)
    assert fitted.score(frame, y) > 0.85
    assert "town" in str(fitted.ensemble_)
    assert {"Oslo", "Lima"} <= set(fitted.ensemble_.features[1].categories)


def further(form, frame):
    if form in ("polars", "arrow"):
        known = {n: frame[n].astype(object).where(frame[n].notna(), None).tolist() for n in frame}
        if form == "polars":
            return pytest.importorskip("polars").DataFrame(known)
        return pytest.importorskip("pyarrow").table(known)
    if form == "objects":
        return frame.astype({"grade": object}).astype(object)
    return frame.to_numpy() if form == "array" else frame.to_numpy().tolist()


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("form", ["array", "lists", "objects", "polars", "arrow"])
def test_the_same_rows_in_another_form_get_the_same_answers(fitted, form):
    frame, _ = people(1)
    other = further(form, frame)
    for model in (fitted, fitted.ensemble_):
        assert model.predict(other).tolist() == model.predict(frame).tolist()


@pytest.mark.parametrize("form", ["array", "objects", "polars", "arrow"])
def test_the_same_rows_in_another_form_give_the_same_model(fitted, form):
    frame, y = people()
    other = classifier().fit(further(form, frame), y).ensemble_
    told = [f.categories and set(f.categories) for f in fitted.ensemble_.features]
    assert [f.categories and set(f.categories) for f in other.features] == told
    assert other.weights == pytest.approx(fitted.ensemble_.weights)
    assert other.predict(frame.to_numpy()).tolist() == fitted.predict(frame).tolist()


def test_what_is_new_at_prediction_is_answered(fitted):
    frame, _ = people(1)
    new = frame.assign(town="Paris", age=None, grade="best", count=None)
    assert set(fitted.predict(new)) <= {"yes", "no"}
    scores = fitted.decision_function(new)
    assert np.isfinite(scores).all()
    assert fitted.ensemble_.decision_function(new).tolist() == scores.tolist()


@pytest.mark.parametrize("seed", range(2))
def test_models_survive_files_and_pickle(fitted, tmp_path, seed):
    frame, _ = people(seed)
    path = tmp_path / "model.json"
    fitted.ensemble_.save(path)
    expected = fitted.decision_function(frame).tolist()
    assert Ensemble.load(path) == fitted.ensemble_
    assert Ensemble.load(path).decision_function(frame).tolist() == expected
    assert pickle.loads(pickle.dumps(fitted)).decision_function(frame).tolist() == expected


def test_the_command_line_agrees(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame, y = people()
    frame.assign(y=y).to_csv("data.csv", index=False)
    result = run("fit", "data.csv", "--target", "y", "--max-learners", 5)
    assert result.exit_code == 0, result.output
    new = frame.assign(town=frame["town"].replace("Rome", "Paris"))
    new.to_csv("new.csv", index=False)
    result = run("predict", "model.json", "new.csv", "--out", "p.csv")
    assert result.exit_code == 0, result.output
    model = classifier().fit(frame, y)
    assert pd.read_csv("p.csv")["label"].tolist() == model.predict(new).tolist()


def test_other_doors_take_them_too():
    frame, y = people()
    valid, truth = people(1)
    front = frontier(frame, y, valid, truth, max_learners=4)
    assert front.points[-1].valid_error < 0.15
    chosen = TotalQBoostClassifierCV(max_learners=4, cv=3).fit(frame, y)
    assert chosen.score(valid, truth) > 0.85


@pytest.mark.parametrize("seed", range(8))
def test_what_is_missing_at_prediction_goes_to_the_side_of_more_weight(seed):
    """Counts are repeated rows there too."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(20, 2)).round(1), rng.integers(0, 2, 20)
    counts = rng.choice([1, 1, 9], 20)
    weighed = TotalQBoostClassifier(max_learners=2).fit(X, y, counts)
    repeated = TotalQBoostClassifier(max_learners=2).fit(X.repeat(counts, 0), y.repeat(counts))
    gap = np.full((1, 2), np.nan)
    assert weighed.decision_function(gap) == pytest.approx(repeated.decision_function(gap))


@pytest.mark.parametrize("seed", range(40))
def test_counts_are_repeated_rows_where_values_are_missing(seed):
    rng = np.random.default_rng(seed)
    n, n_classes = 30, 2 + seed % 2
    frame = pd.DataFrame({"a": rng.normal(size=n).round(1), "c": rng.choice([*"uvwxy"], n)})
    score = frame["a"] + 2 * frame["c"].isin(["u", "v"]) + rng.normal(size=n)
    y = np.argsort(np.argsort(score)) * n_classes // n
    X, counts = frame.mask(rng.random((n, 2)) < 0.3), rng.choice([1, 2, 5], n)
    chosen = {"max_learners": 3, "exchange": False, "fit_intercept": seed % 4 < 2}
    weighed = TotalQBoostClassifier(**chosen).fit(X, y, counts).ensemble_
    rows = np.repeat(np.arange(n), counts)
    repeated = TotalQBoostClassifier(**chosen).fit(X.iloc[rows], y[rows]).ensemble_
    assert weighed.learners == repeated.learners
    np.testing.assert_allclose(weighed.strengths, repeated.strengths, rtol=1e-5)


def test_numbers_are_categories_if_they_are_said_to_be():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 9, N)
    y = np.isin(code, [1, 4, 6])
    X = np.column_stack([code, rng.normal(size=N)])
    model = TotalQBoostClassifier(max_learners=1, categorical_features=[0]).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.predict([[99, 0.0], [np.nan, 0.0], [4, 0.0]]).tolist() == [False, False, True]


@pytest.mark.parametrize("column", ["missing", "text", "constant", "many"])
def test_odd_columns_do_no_harm(column):
    frame, y = people()
    odd = {
        "missing": [None] * N,
        "text": ["same"] * N,
        "constant": [0.0] * N,
        "many": [f"id{i}" for i in range(N)],
    }[column]
    model = classifier().fit(frame.assign(odd=odd), y)
    assert model.score(frame.assign(odd=odd), y) > 0.85
    assert model.predict(frame.assign(odd=None)).shape == (N,)


# -- any table -----------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.none(),
    st.sampled_from([0.0, 1.0, 1e8, -1e8, 1e-308, 5e-324, 1e308]),
    st.floats(allow_nan=True, allow_infinity=False, width=32),
)
COLUMNS = st.sampled_from(["numbers", "text", "category", "bools", "integers", "objects", "gaps"])


@st.composite
def columns(draw, n_rows):
    """Return a column of some kind, and one of the same kind for prediction."""
    kind = draw(COLUMNS)
    if kind == "gaps":
        return pd.Series([None] * 2 * n_rows, dtype=draw(st.sampled_from([object, float])))
    of_kind = {
        "numbers": (NUMBERS, float),
        "text": (st.one_of(st.none(), st.text(max_size=2)), object),
        "category": (st.one_of(st.none(), st.sampled_from("abcde")), "category"),
        "bools": (st.one_of(st.none(), st.booleans()), "boolean"),
        "integers": (st.one_of(st.none(), st.integers(-9, 9)), "Int64"),
        "objects": (st.one_of(NUMBERS, st.booleans()), object),
    }
    values, dtype = of_kind[kind]
    return pd.Series(draw(st.lists(values, min_size=2 * n_rows, max_size=2 * n_rows)), dtype=dtype)


@st.composite
def tables(draw):
    """Return a frame of mixed kinds, its labels, and rows to predict for."""
    n_rows = draw(st.integers(4, 12))
    parts = draw(st.lists(columns(n_rows), min_size=1, max_size=4))
    whole = pd.concat(parts, axis=1, keys=[f"c{j}" for j in range(len(parts))])
    y = np.array(draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows)))
    y[:2] = [False, True]
    return whole[:n_rows], y, whole[n_rows:]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables())
def test_any_table_is_fitted_or_its_column_named(table):
    frame, y, new = table
    said = None
    try:
        model = TotalQBoostClassifier(max_learners=2).fit(frame, y)
        scores = model.decision_function(new)
    except (ValueError, TypeError) as error:
        said = str(error)
    if said is not None:
        assert "column 'c" in said
        return
    assert np.isfinite(scores).all()
    saved = Ensemble.from_dict(model.ensemble_.to_dict())
    assert saved.decision_function(new).tolist() == scores.tolist()
    again = pickle.loads(pickle.dumps(model))
    assert again.decision_function(new).tolist() == scores.tolist()


# -- wishes by name ------------------------------------------------------------------------


def two_equals(n=200):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"cheap": rng.normal(size=n), "dear": rng.normal(size=n)})
    return X, (X["cheap"] + X["dear"] > 0).astype(int)


@pytest.mark.parametrize("kind", [dict, pd.Series])
def test_a_series_with_names_is_read_by_them(kind):
    X, y = two_equals()
    costs = kind({"dear": 1000, "cheap": 0})  # not in the order of the columns
    clf = TotalQBoostClassifier(max_learners=3, feature_costs=costs).fit(X, y)
    assert clf.ensemble_.used_features == (0,)
    clf = TotalQBoostClassifier(monotonic_cst=kind({"dear": -1, "cheap": 1})).fit(X, y)
    assert clf.ensemble_.used_features == (0,)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"feature_costs": True}, "feature_costs must hold numbers, got True"),
        ({"feature_costs": "a"}, "feature_costs must hold numbers, got 'a'"),
        ({"feature_costs": {"cheap": "q"}}, "feature_costs must hold numbers, got ['q']"),
        ({"feature_costs": {"no": 1}}, "must name columns of X, got 'no'; X has 'cheap', 'dear'"),
        ({"monotonic_cst": ["up", "up"]}, "monotonic_cst must hold numbers, got ['up', 'up']"),
        ({"monotonic_cst": [2, 0]}, "monotonic_cst must hold -1, 0 or 1, got 2"),
        ({"categorical_features": True}, "a list of names, positions or a mask, got True"),
        ({"categorical_features": ["no"]}, "got 'no'; X has 'cheap', 'dear'"),
    ],
)
def test_a_wrong_wish_is_named_with_its_value(settings, said):
    with pytest.raises((ValueError, TypeError)) as error:
        TotalQBoostClassifier(**settings).fit(*two_equals())
    assert said in str(error.value)


@pytest.mark.parametrize("wish", ["feature_costs", "monotonic_cst"])
def test_a_name_of_two_columns_says_nothing_about_one(wish):
    X, y = two_equals()
    X.columns = ["a", "a"]
    with pytest.raises(ValueError, match=f"{wish} must name columns of X that are there once"):
        TotalQBoostClassifier(**{wish: {"a": 1}}).fit(X, y)
    assert TotalQBoostClassifier(**{wish: [1, 0]}, max_learners=2).fit(X, y).n_learners_ == 2


def test_true_and_its_spelling_are_one_category():
    answer = np.random.default_rng(0).random(100) < 0.5
    X = pd.DataFrame({"b": pd.Categorical(answer)})
    clf = TotalQBoostClassifier().fit(X, answer)
    for other in (answer, answer.astype(str), answer.astype(int)):
        assert clf.score(pd.DataFrame({"b": other}), answer) == 1.0


def test_labels_that_could_be_misread_stand_in_quotes():
    is_left = np.arange(100) < 50
    X = pd.DataFrame({"side": np.where(is_left, "missing", "")})
    text = str(TotalQBoostClassifier().fit(X, is_left).ensemble_)
    assert re.search("is (not )?('missing'|'')$", text, re.MULTILINE)


@pytest.mark.parametrize("make", ["pandas", "zone", "objects", "polars", "array"])
def test_the_advice_for_dates_works_as_it_stands(make):
    days = [datetime.date(2020, 1, 1 + i % 20) for i in range(60)]
    if make == "polars":
        X = pytest.importorskip("polars").DataFrame({"t": days})
    elif make == "array":
        X = np.array(days, dtype="datetime64[D]")[:, None]
    else:
        zone = "UTC" if make == "zone" else None
        X = pd.DataFrame({"t": days if make == "objects" else pd.DatetimeIndex(days, tz=zone)})
    with pytest.raises(TypeError, match="holds dates or durations") as error:
        TotalQBoostClassifier().fit(X, np.arange(60) % 2)
    code = re.search("dates with (.*) and durations", str(error.value)).group(1)
    numbers = np.asarray(eval(code, {"df": X, "X": X, "np": np, "pd": pd}), dtype=float)
    assert (numbers - numbers.min()).tolist() == [i % 20 for i in range(60)]
