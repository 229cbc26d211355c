"""The tables, the rivals and the rules behind docs/data.md."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import data_kinds_contenders
import data_kinds_report
import data_kinds_rivals
import data_kinds_tables
from data_kinds_rivals import Run
from generalization_values import Values


def mixed_frame():
    return pd.DataFrame(
        {
            "x": [1.0, np.nan, 3.0, 4.0],
            "c": pd.Categorical(["a", "b", None, "b"], categories=["a", "b", "z"]),
        }
    )


def test_a_cut_of_several_classes_or_rounds_is_paid_once():
    a, b, c = (0, 0.5), (1, 0.5), (0, 0.7)
    run = Run([{a, b}, {a}, {b, c}, {a}], lambda X, n: np.full((len(X), 2), n))
    assert [run.n_rounds(k) for k in (1, 2, 3, 9)] == [1, 2, 4, 4]
    model = run.model(3)
    assert (model.n_cuts, model.n_features) == (3, 2)
    assert model.probabilities(np.zeros((1, 1)))[0, 0] == 4


def test_columns_of_text_become_categories_and_small_classes_are_left_out():
    frame = pd.DataFrame({"x": ["1", "2", None, "4"] * 3, "t": ["u", "v", "w", None] * 3})
    labels = ["a"] * 5 + ["b"] * 6 + ["rare"]
    table = data_kinds_tables._table(frame.assign(same="1"), labels)
    assert table.X.shape == (11, 2)  # a constant column says nothing
    assert table.X["x"].isna().sum() == 3
    assert table.X["t"].dtype == "category"
    np.testing.assert_array_equal(table.y, [0] * 5 + [1] * 6)


def test_rows_without_a_label_are_left_out():
    frame = pd.DataFrame({"x": np.arange(14.0)})
    table = data_kinds_tables._table(frame, ["a"] * 6 + [None, np.nan] + ["b"] * 6)
    np.testing.assert_array_equal(table.X["x"], [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13])


def test_other_forms_of_a_table_keep_what_is_missing_apart():
    X = mixed_frame()
    hot = data_kinds_tables.one_hot(X)
    assert hot.filter(like="c_").sum(axis=1).tolist() == [1.0] * 4
    assert data_kinds_tables.ordinal(X)["c"].isna().tolist() == [False, False, True, False]
    filled = data_kinds_tables.imputed(X, of=X)
    assert filled["x"].tolist() == [1.0, 3.0, 3.0, 4.0]
    assert filled["c"].tolist() == ["a", "b", "b", "b"]


@pytest.mark.parametrize("way", data_kinds_tables.WAYS)
def test_removed_values_follow_their_rule(monkeypatch, way):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2000, 5)), np.arange(2000) % 2
    whole = data_kinds_tables.Table(pd.DataFrame(X), y)
    monkeypatch.setattr(data_kinds_tables, "complete", lambda name: whole)
    is_gone = data_kinds_tables.injected("any", way, 0.3, 0).X.isna().to_numpy()
    assert is_gone.mean() == pytest.approx(0.3, abs=0.02)
    above = np.median(X, axis=0) < X
    assert is_gone[~above].mean() == pytest.approx(0.0 if way == "by value" else 0.3, abs=0.02)
    share = is_gone[y == 1].mean() / is_gone[y == 0].mean()
    assert share == pytest.approx(3.0 if way == "by label" else 1.0, rel=0.15)


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "hist_gradient_boosting"])
def test_rivals_see_missing_values_and_categories_and_are_charged_by_cuts(name):
    pytest.importorskip({"hist_gradient_boosting": "sklearn"}.get(name, name))
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"x": rng.random(300), "c": pd.Categorical(rng.choice(list("abcd"), 300))})
    y = (X["c"].isin(["a", "d"]) ^ (X["x"].to_numpy() > 0.9)).to_numpy().astype(int)
    X.loc[::9, "x"] = np.nan
    models = data_kinds_rivals.tuned(getattr(data_kinds_rivals, name), X, y, [1, 4], [1.0], [3])
    assert models[1].n_cuts == 1
    assert models[1].n_features == 1
    assert 2 <= models[4].n_cuts <= 4
    wrong = np.mean(models[1].probabilities(X).argmax(axis=1) != y)
    assert wrong < 0.3  # one question about a set of categories


def test_a_model_of_ours_sees_test_rows_in_its_own_form():
    rng = np.random.default_rng(2)
    values = rng.choice(list("abcdef"), 200)
    X = pd.DataFrame({"c": pd.Categorical(values), "x": rng.random(200)})
    y = np.isin(values, ["a", "d"]).astype(int)
    for contender in ("ours", "ours, one-hot", "ours, ordinal"):
        found = data_kinds_contenders.ON_CATEGORIES[contender](X, y, (2,))
        model = found[contender][2]
        few = X.head(3)  # not all categories are among them
        assert model.probabilities(few).shape == (3, 2)
        assert model.n_cuts <= 2
    error = np.mean(model.probabilities(X).argmax(axis=1) != y)
    assert error < 0.35


def test_ranks_against_rivals_leave_our_other_forms_out():
    def cells(*errors):
        return {m: {s: str(e) for s, e in zip("pqr", errors, strict=True)} for m in measures}

    measures = ("error", "log_loss")
    values = {
        "ours": {"5": cells(2, 2, 2)},
        "ours, one-hot": {"5": cells(1, 1, 1)},
        "CART": {"5": cells(3, 3, 3)},
    }
    page = data_kinds_report.equal_size(
        Values({"data": list("pqr"), "splits": [0], "values": values}), [5], "ours"
    )
    text = "\n".join(page)
    assert (
        "*ours* has the best mean rank in test error (%), rivals only, at every size: yes" in text
    )


def summary_of(values, data):
    empty = {"seconds": {}, "absent": {}, "missing": [], "fewer_splits": {}}
    return {"data": data, "splits": [0, 1], "values": values} | empty


def test_the_identifier_costs_what_the_same_tables_cost_more_with_it():
    both = {"p": "10.0 20.0", "q": "30.0 -"}
    plain = Values(summary_of({"ours": {"5": {"error": both | {"r": "99.0 99.0"}}}}, list("pqr")))
    more = {"p": "11.0 21.0", "q": "31.0 -"}
    found = data_kinds_report.identity(
        Values(summary_of({"ours": {"5": {"error": more}}}, list("pq"))), plain, [5]
    )
    assert "20.00 → 21.00" in found[0]
    assert "+1.00" in found[0]


def test_prices_are_reported_as_features_and_error():
    cells = {"own": {"features": {"p": "4 2"}, "error": {"p": "5.0 7.0"}, "cuts": {"p": "6 8"}}}
    found = data_kinds_report.prices(Values(summary_of({"feature_costs=4": cells}, ["p"])))
    assert "3.0; 6.0" in found[0]
    assert "7.0 |" in found[0]
