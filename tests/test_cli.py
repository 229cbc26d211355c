"""The command line as its users meet it: what it prints, writes, and says about bad input."""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from command_line import PROGRAM, error_of, interrupted, run
from ensembles import mixed_ensemble
from typer.core import TyperGroup

import totalqboost
from totalqboost import Ensemble, Stump, TotalQBoostClassifier, datasets
from totalqboost.cli import honest, main, outputs
from totalqboost.cli.errors import BadInput
from totalqboost.cli.training import TrainingRows
from totalqboost.learners import Both
from totalqboost.solving import Interrupted

NAMES = ["age", "size [cm]", "blood pressure", ":smile:"]
FIT = ("fit", "data.csv", "--target", "state")


def patients() -> pd.DataFrame:
    """Two features decide, two are noise; labels are words."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(150, 4)).round(3), columns=NAMES)
    ill = frame["age"] + frame["size [cm]"] + 0.3 * rng.normal(size=150) > 0
    return frame.assign(state=np.where(ill, "ill", "healthy"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty working directory with data.csv in it."""
    monkeypatch.chdir(tmp_path)
    patients().to_csv("data.csv", index=False)
    return tmp_path


@pytest.fixture
def model(folder):
    """A model that was made by hand: ill if age > 0.5."""
    ensemble = Ensemble((Stump(0, 0.5),), (0.7,), 0.1, ("healthy", "ill"), tuple(NAMES))
    ensemble.save("model.json")
    return ensemble


# -- fit, predict, info ------------------------------------------------------------------


def test_round_trip_keeps_labels_names_and_scores():
    fitted = run("fit", "data.csv", "--target", "state", "--max-learners", 4, "--out", "m.json")
    assert fitted.exit_code == 0, fitted.output
    assert fitted.stderr == ""
    assert "4 weak classifiers" in fitted.stdout
    assert "size [cm]" in fitted.stdout
    assert "Saved in m.json." in fitted.stdout

    ensemble = Ensemble.load("m.json")
    assert ensemble.classes == ("healthy", "ill")
    assert ensemble.feature_names == tuple(NAMES)
    assert ensemble.n_learners == 4

    predicted = run("predict", "m.json", "data.csv", "--proba")
    assert predicted.exit_code == 0
    assert predicted.stderr == ""
    table = pd.read_csv(io.StringIO(predicted.stdout), float_precision="round_trip")
    assert list(table.columns) == ["label", "score", "probability_ill"]
    X = patients()[NAMES].to_numpy()
    np.testing.assert_array_equal(table["score"], ensemble.decision_function(X))
    np.testing.assert_array_equal(table["label"], ensemble.predict(X))
    link = totalqboost.losses.get("logistic").link(table["score"].to_numpy())
    np.testing.assert_allclose(table["probability_ill"], link)

    shown = run("info", "m.json")
    assert shown.exit_code == 0
    for text in ("'healthy' (score <= 0), 'ill' (> 0)", "logistic", "age", "size [cm]"):
        assert text in shown.stdout


def test_names_are_shown_as_they_are_and_lines_fit_80_columns():
    long = "a very long name of a column that says everything about what was measured, and where"
    ensemble = Ensemble(
        (Stump(0, 1.0), Stump(1, 2.0, -1), Stump(2, 0.0)),
        (1.0, 0.5, 1e-7),
        classes=("[red]", ":smile:"),
        features=("[bold]age", ":heart:", long),
    )
    ensemble.save("m.json")
    shown = run("info", "m.json").stdout
    for name in ("[bold]age", ":heart:", "[red]", ":smile:", "1.000e-07", "<= 2"):
        assert name in shown
    assert max(map(len, shown.splitlines())) <= 80
    cells = [line.split("│")[2].strip() for line in shown.splitlines() if line.count("│") == 4]
    assert "".join("".join(cells).split()).endswith("".join(long.split()))


def test_training_error_is_the_error_of_the_saved_model():
    fitted = run("fit", "data.csv", "--target", "state", "--penalty", 0.1, "--out", "m.json")
    wrong = Ensemble.load("m.json").predict(patients()[NAMES].to_numpy()) != patients()["state"]
    assert f"Training error {100 * wrong.mean():.1f} % of 150 rows" in fitted.stdout


def test_without_options_the_settings_are_the_estimators():
    run(*FIT)
    run(*FIT, "--penalty", "auto", "--l1-penalty", "auto", "--loss", "logistic", "--out", "b.json")
    clf = TotalQBoostClassifier().fit(patients()[NAMES], patients()["state"])
    assert Ensemble.load("model.json") == Ensemble.load("b.json") == clf.ensemble_


def test_prices_have_names():
    sizes = {}
    for price in ("auto", "aic", "bic", "ric"):
        assert run(*FIT, "--penalty", price, "--out", f"{price}.json").exit_code == 0
        clf = TotalQBoostClassifier(price).fit(patients()[NAMES], patients()["state"])
        assert Ensemble.load(f"{price}.json") == clf.ensemble_
        sizes[price] = clf.n_learners_
    assert sizes["auto"] > sizes["ric"]
    assert run(*FIT, "--l1-penalty", "0.1", "--overwrite").exit_code == 0
    clf = TotalQBoostClassifier(l1_penalty=0.1).fit(patients()[NAMES], patients()["state"])
    assert Ensemble.load("model.json") == clf.ensemble_


def test_max_learners_may_exceed_the_usual_number_of_rounds(monkeypatch):
    settings = []

    def remember(self, *args, **kwargs):
        settings.append((self.max_rounds, self.max_learners, self.cardinality_penalty))
        raise KeyboardInterrupt

    monkeypatch.setattr(TotalQBoostClassifier, "fit", remember)
    run("fit", "data.csv", "--target", "state", "--max-learners", 150)
    run("fit", "data.csv", "--target", "state", "--max-learners", 150, "--max-rounds", 20)
    assert settings == [(150, 150, 0.0), (20, 150, 0.0)]


def test_paper_is_algorithm_1_and_no_more():
    fitted = run(*FIT, "--paper", "--penalty", 0.005, "--max-rounds", 15)
    assert " rounds (" in fitted.stdout
    clf = TotalQBoostClassifier(
        0.005,
        loss="exponential",
        l1_penalty=1e-6,
        fit_intercept=False,
        exchange=False,
        patience=None,
        max_rounds=15,
        random_state=0,
    )
    assert Ensemble.load("model.json") == clf.fit(patients()[NAMES], patients()["state"]).ensemble_


def test_dropped_and_weight_columns_are_no_features():
    frame = patients().assign(id=[f"p{i}" for i in range(150)], note="", w=1.0)
    frame.loc[frame["state"] == "ill", "w"] = 3.0
    frame.to_csv("data.csv", index=False)
    options = ("--drop", "id", "--drop", "note", "--weight-column", "w", "--penalty", 0.2)
    fitted = run("fit", "data.csv", "--target", "state", *options)
    assert fitted.exit_code == 0, fitted.output
    assert "Weighted training error" in fitted.stdout
    weighted = Ensemble.load("model.json")
    assert weighted.feature_names == tuple(NAMES)
    run("fit", "data.csv", "--target", "state", "--drop", "w", *options[:4], "--out", "u.json")
    assert Ensemble.load("u.json") != weighted


def test_a_warning_is_one_sentence():
    frame = patients()
    frame.assign(state=np.where(frame["age"] > 0, "ill", "healthy")).to_csv("data.csv", index=False)
    fitted = run(*FIT, "--l1-penalty", "1e-9")
    assert fitted.exit_code == 0
    assert fitted.stderr.startswith("warning: the ensemble separates the classes and --l1-penalty ")
    assert fitted.stderr.endswith("use --l1-penalty 'auto'\n")
    assert fitted.stderr.count("\n") == 1


def test_what_is_outdated_inside_is_not_said(monkeypatch):
    def warn(self, *args, **kwargs):
        warnings.warn("do it otherwise", DeprecationWarning, stacklevel=1)
        raise KeyboardInterrupt

    monkeypatch.setattr(TotalQBoostClassifier, "fit", warn)
    assert "otherwise" not in run(*FIT).stderr


def test_sizes_are_not_called_rounds():
    fitted = run(*FIT, "--max-learners", 3)
    assert "after a search of sizes up to 3 (converged)" in fitted.stdout
    assert "round" not in fitted.stdout


# -- errors on rows not seen -------------------------------------------------------------


def test_cross_validation_predicts_each_row_by_a_model_of_others():
    fitted = run(*FIT, "--cv", 3, "--penalty", 0.02, "--seed", 4)
    assert fitted.exit_code == 0, fitted.output
    X, y = patients()[NAMES], patients()["state"].to_numpy()
    masks = honest.folds(y, 3, seed=4)
    assert np.sum(masks, axis=0).tolist() == [1] * 150
    probability = np.zeros(150)
    for mask in masks:
        clf = TotalQBoostClassifier(0.02, random_state=4).fit(X[~mask], y[~mask])
        probability[mask] = clf.predict_proba(X[mask])[:, 1]
    wrong = (probability > 0.5) != (y == "ill")
    loss = -np.log(np.where(y == "ill", probability, 1 - probability))
    se = [values.std() / 150**0.5 for values in (wrong, loss)]
    assert (
        f"Cross-validated error {100 * wrong.mean():.1f} % ± {100 * se[0]:.1f} of 150 rows, "
        f"log loss {loss.mean():.3f} ± {se[1]:.3f} (3 models" in fitted.stdout
    )
    assert "Saved in model.json, trained on all rows." in fitted.stdout
    clf = TotalQBoostClassifier(0.02).fit(X, y)
    assert Ensemble.load("model.json") == clf.ensemble_


def test_rows_held_out_are_not_trained_on():
    fitted = run(*FIT, "--test-size", 0.2)
    y = patients()["state"].to_numpy()
    (mask,) = honest.held_out(y, 0.2, seed=0)
    assert mask.sum() == 30
    assert abs(np.mean(y[mask] == "ill") - np.mean(y == "ill")) < 0.05
    clf = TotalQBoostClassifier().fit(patients()[NAMES][~mask], y[~mask])
    wrong = np.mean(clf.predict(patients()[NAMES][mask]) != y[mask])
    assert f"Test error {100 * wrong:.1f} % ± " in fitted.stdout
    assert "of 30 rows, log loss " in fitted.stdout
    assert "(a model of the other 120 rows)" in fitted.stdout
    run(*FIT, "--out", "plain.json")
    assert Ensemble.load("model.json") == Ensemble.load("plain.json")


def test_weights_count_in_the_errors():
    y, weight = np.array([1, 1, 0]), np.array([2.0, 1.0, 1.0])
    positive = np.array([0.25, 0.5001, 0.1])
    errors = honest.errors_of(y, np.column_stack([1 - positive, positive]), weight)
    assert errors.error == pytest.approx(0.5)
    losses = -np.log([0.25, 0.5001, 0.9])
    assert errors.log_loss == pytest.approx(losses @ weight / 4)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--cv", 5, "--test-size", 0.2), "--cv and --test-size are alternatives"),
        (("--cv", 1), "--cv"),
        (("--cv", 200), "--cv must be at most "),
        (("--test-size", 1.5), "--test-size must be a share between 0 and 1, got 1.5"),
        (("--test-size", "nan"), "--test-size must be a share between 0 and 1, got nan"),
        (("--test-size", 0.001), "--test-size 0.001 leaves too few of the 150 rows on one side"),
        (("--test-size", 0.999), "--test-size 0.999 leaves too few of the 150 rows on one side"),
    ],
)
def test_bad_measurement_is_named(options, complaint, monkeypatch):
    monkeypatch.setattr(TotalQBoostClassifier, "fit", None)
    assert complaint in error_of(*FIT, *options)


def test_one_row_of_a_class_cannot_be_cross_validated():
    frame = patients()
    frame.assign(state=["ill"] + ["healthy"] * 149).to_csv("data.csv", index=False)
    said = error_of(*FIT, "--cv", 2)
    assert said == "--cv needs at least 2 rows of two classes, the smaller one has 1"


def test_a_class_may_be_too_small_for_folds_if_two_are_not():
    y = np.array(["a"] * 9 + ["b"] * 5 + ["c"])
    masks = honest.folds(y, 5, seed=0)
    assert np.sum(masks, axis=0).tolist() == [1] * 15
    assert all(len(set(y[~mask])) >= 2 for mask in masks)
    with pytest.raises(BadInput, match="at most 5, the number of rows of the second largest class"):
        honest.folds(y, 6, seed=0)


def test_sure_mistakes_cost_what_they_cost_elsewhere():
    errors = honest.errors_of(np.array([1]), np.array([[1.0, 0.0]]), np.ones(1))
    assert errors.log_loss == pytest.approx(-np.log(np.finfo(float).eps))


def test_interrupt_while_measuring_keeps_the_model(monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingRows, "measured", interrupt)
    result = run(*FIT, "--cv", 3)
    assert result.exit_code == 130
    assert "the model is saved in model.json" in result.stderr
    assert Ensemble.load("model.json").n_learners > 0


def test_quiet_fit_prints_nothing():
    fitted = run("fit", "data.csv", "--target", "state", "--quiet")
    assert fitted.exit_code == 0
    assert fitted.output == ""
    assert Ensemble.load("model.json").n_learners > 0


def test_a_price_too_high_for_any_learner_is_explained():
    fitted = run("fit", "data.csv", "--target", "state", "--penalty", 5)
    assert fitted.exit_code == 0
    assert "lower --penalty" in fitted.stdout
    shown = run("info", "model.json")
    assert "the answer is always" in shown.stdout


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["no", "yes"], ("no", "yes")),
        ([-1, 1], (-1, 1)),
        ([1.0, 2.0], (1.0, 2.0)),
        ([0.5, 1.5], ("0.5", "1.5")),
        ([False, True], (False, True)),
        (["2", "x"], ("2", "x")),
    ],
)
def test_labels_of_any_type_come_back(labels, classes):
    frame = patients()
    truth = [labels[state == "ill"] for state in frame["state"]]
    frame.assign(state=truth).to_csv("data.csv", index=False)
    fitted = run("fit", "data.csv", "--target", "state", "--max-learners", 2)
    assert fitted.exit_code == 0, fitted.output
    assert Ensemble.load("model.json").classes == classes
    predicted = run("predict", "model.json", "data.csv", "--target", "state")
    table = pd.read_csv(io.StringIO(predicted.stdout), dtype={"label": str})
    wrong = np.mean(table["label"].to_numpy() != [str(label) for label in truth])
    assert wrong < 0.3
    assert f"Error {100 * wrong:.1f} %" in predicted.stderr


def test_prediction_needs_only_the_columns_the_model_looks_at(model):
    others = pd.DataFrame({"city": ["Rome", "Oslo"], "age": [0.4, 0.6]})
    others.to_csv("new.csv", index=False)
    predicted = run("predict", "model.json", "new.csv")
    scores = model.decision_function(np.array([[0.4, 0, 0, 0], [0.6, 0, 0, 0]]))
    expected = f"label,score\nhealthy,{scores[0]}\nill,{scores[1]}\n"
    assert predicted.stdout == expected


def test_integer_weights_are_shown_as_points():
    shown = run("fit", "data.csv", "--target", "state", "--max-learners", 3, "--bits", 4)
    assert "in points of " in shown.stdout
    cells = re.findall(r"^│ +([^ ]+) │", shown.stdout, re.MULTILINE)
    assert len(cells) == 3
    assert all(cell.isdecimal() for cell in cells)


def save_model_of_labels(classes: tuple[str, ...]) -> None:
    """Save a model that gives the k-th label to the k-th row of new.csv."""
    n = len(classes)
    weights = tuple(np.eye(n)[k] for k in range(n))
    learners = tuple(Both.of(Stump(0, k - 0.5), Stump(0, k + 0.5, -1)) for k in range(n))
    Ensemble(learners, weights, 0.0, classes, ("age",), "multinomial").save("m.json")
    pd.DataFrame({"age": range(n)}).to_csv("new.csv", index=False)


def test_no_label_is_a_formula_for_a_spreadsheet():
    save_model_of_labels(("=1+1", "-", "-1.5", "@SUM(A1)", "plain", "+a", "-2+3", "\tx"))
    lines = run("predict", "m.json", "new.csv").stdout.splitlines()[1:]
    shown = ["'=1+1", "-", "-1.5", "'@SUM(A1)", "plain", "'+a", "'-2+3", "'\tx"]
    assert [line.split(",")[0] for line in lines] == shown


def test_a_label_of_several_lines_is_one_cell_and_no_formula():
    classes = ("z", "a\r=1+1", "\r=1", "\n=1", "b\r\n@x", "\r\n-x", 'c"\r,=1', "\r")
    save_model_of_labels(classes)
    run("predict", "m.json", "new.csv", "--out", "p.csv", "--proba")
    expected = [f"'{name}" if name[0] in "\r\n" and name != "\r" else name for name in classes]
    names = ["label", *(f"{kind}_{c}" for kind in ("score", "probability") for c in classes)]
    with open("p.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == names
    assert [row[0] for row in rows] == expected
    table = pd.read_csv("p.csv", float_precision="round_trip")
    assert list(table.columns) == names
    assert table["label"].tolist() == expected
    scores = Ensemble.load("m.json").decision_function(np.arange(8.0)[:, None])
    np.testing.assert_array_equal(table.iloc[:, 1:9], scores)


def test_predictions_to_a_file_keep_stdout_clean(model):
    predicted = run("predict", "model.json", "data.csv", "--out", "p.csv", "--target", "state")
    assert predicted.exit_code == 0
    assert predicted.stdout == ""
    truth, labels = patients()["state"], pd.read_csv("p.csv")["label"]
    n_wrong = int((labels != truth).sum())
    assert predicted.stderr == (
        "150 predictions written to p.csv.\n"
        f"Error {100 * n_wrong / 150:.1f} % ({n_wrong} of 150 rows).\n"
    )


def test_version_and_help_teach():
    assert run("--version").stdout == f"totalqboost {totalqboost.__version__}\n"
    for command in ("fit", "frontier", "predict", "info", "demo", "solve", "reproduce", "report"):
        assert f"  totalqboost {command} " in run(command, "--help").stdout.replace("\n", " ")
    for text in ("--cv 5", "auto", "--sep ';'", "- for standard input", "Parquet"):
        assert text in " ".join(run("fit", "--help").stdout.split())
    assert run().stdout == run("--help").stdout
    assert "totalqboost fit data.csv --target y" in run().stdout


# -- bad input: exit code 2 and one sentence ---------------------------------------------


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "data.csv is empty"),
        (b"\n\n", "data.csv is empty"),
        (b"a,b,state\n", "data.csv has no rows"),
        (b"a,state\n1,x\n2,y,3,4\n", "data.csv: line 3 has 4 fields, the line of names 2; "),
        (b"a,state\n1,x,7\n2,y,8\n", "data.csv: line 2 has 3 fields, the line of names 2; "),
        (b"\x89PNG\r\n\x1a\n\x00\xff\xfe\xfd", "data.csv is not a CSV file: "),
        (b"a,b\n1,x\n", "has no column 'state' (--target); its columns are 'a', 'b'"),
        (b"a,state\n1,x\n2,x\n", "data.csv: column 'state' has one label, 'x', and must have two"),
        (
            b"a,state\n" + b"".join(b"u,%d.5\n" % i for i in range(30)),
            "column 'state' has 30 different labels in 30 rows, '0.5', '1.5', ",
        ),
        (b"a,state\n1,x\n2,\n3,y\n", "1 of 3 rows have no label in column 'state'"),
        (
            b"a,state,a,state\n1,0,2,0\n2,1,3,1\n",
            "data.csv repeats the names of columns 'a', 'state'",
        ),
        (b"state\nx\ny\n", "no column left to learn from"),
        (
            b"a,my city,c,state\n1,5,u,x\n2,Oslo,4,y\n",
            "not numbers in columns 'my city', 'c' (first 'Oslo' in line 3); if these are "
            "categories, add --categorical 'my city' --categorical c, or leave out with "
            "--drop 'my city' --drop c",
        ),
        (
            b"a,b,c,state\n1,-inf,inf,x\n2,5,6,y\n",
            "infinite values in columns 'b', 'c' (first in line 2); put a large number in their "
            "place, or nothing, which is a missing value",
        ),
    ],
)
def test_bad_data_is_named(content, complaint):
    Path("data.csv").write_bytes(content)
    assert complaint in error_of(*FIT)
    assert not Path("model.json").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--penalty", "0.1", "--max-learners", "3"), "--penalty and --max-learners are altern"),
        (
            ("--penalty", "-0.1"),
            "--penalty must be a number >= 0 or auto | aic | bic | ric, got -0",
        ),
        (("--penalty", "nan"), "--penalty must be a number >= 0 or auto | aic | bic | ric, got n"),
        (
            ("--penalty", "cheap"),
            "--penalty must be a number >= 0 or auto | aic | bic | ric, got c",
        ),
        (("--l1-penalty", "aic"), "--l1-penalty must be a number >= 0 or auto, got aic"),
        (("--max-learners", "0"), "--max-learners"),
        (("--max-rounds", "0"), "--max-rounds"),
        (("--seed", "-1"), "--seed"),
        (("--jobs", "0"), "--jobs must be a number of threads, or -1 for all, got 0"),
        (("--loss", "hinge"), "one of exponential, logistic, smoothed_hinge, squared, got 'hinge'"),
        (("--solver", "magic"), "--solver must be one of exact, local, tabu, got 'magic'"),
        (("--drop", "id"), "data.csv has no column 'id' (--drop); its columns are 'age', "),
        (("--weight-column", "w"), "data.csv has no column 'w' (--weight-column); its columns"),
        (("--drop", "state"), "--target and --drop must differ, got 'state' for both"),
        (("--weight-column", "state"), "--target and --weight-column must differ"),
        (("--penality", "1"), "--penality"),
        (("more.csv",), "more.csv"),
    ],
)
def test_bad_option_is_named(options, complaint):
    assert complaint in error_of(*FIT, *options)
    assert not Path("model.json").exists()


@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        (-1.0, "column 'w' must hold weights >= 0, some above 0; the least is -1"),
        (0.0, "column 'w' must hold weights >= 0, some above 0; all are 0"),
        (None, "missing values in column 'w' (first in line 2); every row needs a weight"),
        ("much", "not numbers in column 'w' (first 'much' in line 2); weights must be numbers"),
    ],
)
def test_bad_weights_are_named(weights, complaint):
    patients().assign(w=weights).to_csv("data.csv", index=False)
    assert complaint in error_of(*FIT, "--weight-column", "w")


def test_rows_without_weight_are_left_out_of_folds():
    frame = patients()
    is_ill = (frame["state"] == "ill").to_numpy()
    frame.assign(w=np.where(is_ill & (np.arange(150) > 20), 0.0, 1.0)).to_csv(
        "data.csv", index=False
    )
    n_ill = int(is_ill[:21].sum())
    said = error_of(*FIT, "--weight-column", "w", "--cv", n_ill + 1)
    assert f"--cv must be at most {n_ill}, the number of rows of the smaller class" in said
    for command in ("fit", "frontier"):
        options = ("--max-learners", 2, "--weight-column", "w", "--cv", n_ill)
        assert run(command, *FIT[1:], *options).exit_code == 0


def test_a_class_without_weight_is_no_class():
    frame = patients()
    frame.assign(w=(frame["state"] == "ill") * 1.0).to_csv("data.csv", index=False)
    assert "'state' has one label among the rows of weight > 0, 'ill'," in error_of(
        *FIT, "--weight-column", "w"
    )


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (
            ("fit", "none.csv", "--target", "y", "--out", "new.json"),
            "cannot read none.csv: no such file",
        ),
        (("fit", ".", "--target", "y", "--out", "new.json"), "no Parquet file is there: ."),
        (("fit", "data.csv"), "--target"),
        (("predict", "none.json", "data.csv"), "cannot read none.json: no such file"),
        (("predict", "model.json", "none.csv"), "cannot read none.csv: no such file"),
        (("predict", "model.json"), "DATA"),
        (("info", "none.json"), "cannot read none.json: no such file"),
        (("train", "data.csv"), "train"),
        (("demo", "--data", "iris"), "one of waveform, ringnorm, twonorm, got 'iris'"),
        (("demo", "--max-learners", "0"), "--max-learners"),
    ],
)
def test_bad_command_is_named(model, command, complaint):
    assert complaint in error_of(*command)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_info_tells_of_gaps_categories_and_classes(folder, n_classes):
    model = mixed_ensemble(1, n_classes)
    model.save("model.json")
    shown = " ".join(run("info", "model.json").stdout.split())
    assert "4 used of 5, 2 of categories, 2 with missing values in training" in shown
    assert "or missing" in shown
    assert "in {" in shown
    if n_classes == 2:
        assert "'no' (score <= 0), 'yes' (> 0)" in shown
        assert "votes 'yes' if, else 'no'" in shown
    else:
        assert "'a', 'b' and 'c'; the highest score decides" in shown
        assert f"'a' {model.intercept[0]:+.6g}" in shown
        assert f"{model.weights[0][0]:+.4g}" in shown


@pytest.mark.parametrize("n_classes", [4, 5, 6, 26])
def test_many_classes_fit_80_columns(folder, n_classes):
    model = mixed_ensemble(1, n_classes)
    model.save("model.json")
    shown = run("info", "model.json").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    best = model.classes[int(np.argmax(model.weights[0]))]
    assert repr(best) in shown
    assert f"{max(model.weights[0]):+.4g}" in shown


def test_info_of_an_ensemble_without_learners_tells_the_answer(folder):
    Ensemble((), (), (0.0, 1.0, 0.5), ("a", "b", "c"), tuple(NAMES)).save("model.json")
    assert "the answer is always 'b'" in run("info", "model.json").stdout
    Ensemble((), (), 0.0, ("a", "b"), tuple(NAMES)).save("model.json")
    assert "the answer is always 'a'" in run("info", "model.json").stdout


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda text: text[: len(text) // 2], "model.json: cannot be read as a model"),
        (lambda text: "", "model.json: cannot be read as a model"),
        (lambda text: '{"a": 1}', "not a TotalQBoost ensemble"),
        (lambda text: text.replace('"schema_version": 2', '"schema_version": 99'), "99"),
        (lambda text: text.replace('"weight": 0.7', '"weight": "heavy"'), "'heavy'"),
    ],
)
def test_damaged_or_foreign_model_is_named(model, change, complaint):
    path = Path("model.json")
    path.write_text(change(path.read_text()))
    assert complaint in error_of("info", "model.json")
    assert complaint in error_of("predict", "model.json", "data.csv")


@pytest.mark.parametrize(
    ("column", "values", "complaint"),
    [
        (None, None, "data.csv has no column 'age' (needed by the model); its columns are 'size"),
        ("age", "old", "not numbers in column 'age' (first 'old' in line 2); the model needs"),
        ("age", np.inf, "infinite values in column 'age' (first in line 2); put a large"),
        ("state", "unwell", "has labels 'unwell', but the classes of the model are 'healthy', "),
    ],
)
def test_data_that_does_not_fit_the_model_is_named(model, column, values, complaint):
    frame = patients()
    frame = frame.drop(columns="age") if column is None else frame.assign(**{column: values})
    frame.to_csv("data.csv", index=False)
    assert complaint in error_of("predict", "model.json", "data.csv", "--target", "state")


def test_probabilities_of_an_unknown_loss_are_refused(model):
    path = Path("model.json")
    path.write_text(path.read_text().replace('"exponential"', '"mine"'))
    assert run("predict", "model.json", "data.csv").exit_code == 0
    complaint = error_of("predict", "model.json", "data.csv", "--proba")
    assert "the loss 'mine'" in complaint


def test_an_unexpected_error_keeps_its_traceback(monkeypatch):
    def fail(self, *args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr(TotalQBoostClassifier, "fit", fail)
    with pytest.raises(ZeroDivisionError):
        run(*FIT)


# -- nothing is lost ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("out", "complaint"),
    [
        ("nowhere/model.json", "there is no folder nowhere"),
        ("data.csv/model.json", "there is no folder data.csv"),
        (".", "it is not a file"),
        ("/dev/null", "it is not a file"),
        ("data.csv", "it is the input"),
        ("../{name}/data.csv", "it is the input"),
        ("old.json", "old.json exists already; add --overwrite"),
    ],
)
def test_unsuitable_output_is_refused_before_the_work(folder, monkeypatch, out, complaint):
    monkeypatch.setattr(TotalQBoostClassifier, "fit", None)
    Path("old.json").write_text("precious")
    files = {path: path.read_bytes() for path in folder.iterdir()}
    assert complaint in error_of(*FIT, "--out", out.format(name=folder.name))
    assert files == {path: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (("fit", "none.csv", "--target", "state"), "cannot read none.csv"),
        (("fit", "data.csv", "--target", "status"), "has no column 'status'"),
        (("fit", "data.csv", "--target", "state", "--drop", "id"), "has no column 'id'"),
        (("fit", "data.csv", "--target", "age", "--drop", "state"), "different labels"),
        (("fit", "data.csv", "--target", "state", "--cv", 140), "--cv must be at most"),
        (("predict", "model.json", "none.csv", "--out", "model.csv"), "cannot read none.csv"),
        (
            ("predict", "model.json", "data.csv", "--target", "no", "--out", "o.csv"),
            "no column 'no'",
        ),
        (("fit", "data.csv", "--target", "state"), "model.json exists already"),
    ],
)
def test_an_existing_file_is_the_last_complaint(model, command, complaint, monkeypatch):
    monkeypatch.setattr(TotalQBoostClassifier, "fit", None)
    for name in ("model.csv", "o.csv"):
        Path(name).write_text("old")
    assert complaint in error_of(*command)


def test_input_is_never_replaced_even_on_demand(model):
    assert "it is the input" in error_of(*FIT, "--out", "data.csv", "--overwrite")
    for out in ("data.csv", "model.json"):
        command = ("predict", "model.json", "data.csv", "--overwrite", "--out", out)
        assert "it is the input" in error_of(*command)


def test_folder_without_permission_is_refused_before_the_work(folder, monkeypatch):
    def refuse(**kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(outputs.tempfile, "mkstemp", refuse)
    monkeypatch.setattr(TotalQBoostClassifier, "fit", None)
    assert error_of(*FIT) == "cannot write model.json: permission denied"
    assert [path.name for path in folder.iterdir()] == ["data.csv"]


def test_disk_that_fills_up_keeps_the_old_file(folder, monkeypatch):
    def fail(handle):
        raise OSError(28, "No space left on device")

    Path("model.json").write_text("old")
    monkeypatch.setattr("totalqboost.files.os.fsync", fail)
    assert "no space left on device" in error_of(*FIT, "--overwrite")
    assert Path("model.json").read_text() == "old"
    assert len(list(folder.iterdir())) == 2


def test_overwrite_replaces_the_file():
    Path("model.json").write_text("old")
    assert run(*FIT, "--overwrite").exit_code == 0
    assert Ensemble.load("model.json").n_learners > 0


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Interrupted(None)])
def test_interrupt_before_the_first_round_says_that_nothing_is_saved(monkeypatch, stop):
    def interrupt(self, *args, **kwargs):
        raise stop

    monkeypatch.setattr(TotalQBoostClassifier, "fit", interrupt)
    result = run(*FIT)
    assert result.exit_code == 130
    assert "nothing was saved" in result.stderr
    assert not Path("model.json").exists()


def test_ctrl_c_keeps_the_ensemble_so_far():
    """A fit of a thousand rounds on a terminal gets SIGINT as soon as it shows a round."""
    import pty

    X, y = datasets.make_ringnorm(10_000)
    pd.DataFrame(X).add_prefix("x").assign(y=y).to_csv("data.csv", index=False)
    terminal, its_end = pty.openpty()
    options = ("--paper", "--penalty", "0", "--max-rounds", "1000", "--out", "m.json")
    process = subprocess.Popen(
        [PROGRAM, "fit", "data.csv", "--target", "y", *options], stderr=its_end
    )
    os.close(its_end)
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    shown = b""
    try:
        while chunk := _read(terminal):
            was_running = b"round " in shown
            shown += chunk
            if b"round " in shown and not was_running:
                process.send_signal(signal.SIGINT)
        assert process.wait() == 130, shown
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        os.close(terminal)
    ensemble = Ensemble.load("m.json")
    assert ensemble.n_learners > 0
    said = b" ".join(shown.split()).decode()
    assert f"the ensemble so far, {ensemble.n_learners} weak classifier" in said
    assert "is saved in m.json." in said


def _read(terminal: int) -> bytes:
    """Read what was written to a terminal; nothing once its writer is gone."""
    try:
        return os.read(terminal, 65536)
    except OSError:  # what Linux answers at the end
        return b""


# -- the installed program ---------------------------------------------------------------


def test_module_runs_the_program(model):
    command = [sys.executable, "-m", "totalqboost", "info", "model.json"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout == run("info", "model.json").stdout


def test_installed_program_ends_bad_input_with_one_sentence():
    result = subprocess.run([PROGRAM, "info", "none.json"], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == "error: cannot read none.json: no such file or directory\n"


def test_reader_that_goes_away_is_no_traceback(model):
    pd.concat([patients()] * 200).to_csv("data.csv", index=False)
    with subprocess.Popen(
        [PROGRAM, "predict", "model.json", "data.csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert b"Error" not in process.stderr.read()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk_behind_standard_output_is_one_sentence(model):
    with open("/dev/full", "wb") as full:
        command = [PROGRAM, "predict", "model.json", "data.csv"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2
    assert result.stderr == "error: cannot write to standard output: no space left on device\n"


def in_shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run the program by a shell, which can close standard streams."""
    return subprocess.run(
        ["sh", "-c", f'"$0" {command}', str(PROGRAM)], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("predict model.json data.csv >&-", "cannot write to standard output: it is closed"),
        ("--help >&-", "cannot write to standard output: it is closed"),
        ("predict model.json - <&-", "cannot read standard input: it is closed"),
    ],
)
def test_a_closed_stream_that_is_needed_is_one_sentence(model, command, complaint):
    done = in_shell(command)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {complaint}\n")


def test_closed_streams_that_are_not_needed_change_nothing(model):
    done = in_shell("predict model.json data.csv 2>&- <&-")
    assert (done.returncode, done.stdout) == (0, run("predict", "model.json", "data.csv").stdout)
    assert in_shell("predict model.json data.csv --out p.csv >&- 2>&- <&-").returncode == 0
    assert Path("p.csv").read_text() == done.stdout
    assert in_shell("predict none.json data.csv >&- 2>&-").returncode == 2


def test_a_terminal_without_our_letters_gets_others():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [PROGRAM, "frontier", *FIT[1:], "--max-learners", "2", "--valid", "data.csv"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert "\\xb1" in result.stdout


def test_ctrl_c_is_quiet_also_while_packages_are_loaded(monkeypatch, capsys):
    class Interrupting:
        def find_spec(self, name, path, target=None):
            if name == "totalqboost.cli.app":
                raise KeyboardInterrupt

    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "totalqboost.cli.app")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Interrupted.\n"


# On PYTHONPATH: wait for the signal in the middle of an import.
WAITING = """
import os, pathlib, sys, time

class Waiting:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["MOMENT"]:
            pathlib.Path("waiting").touch()
            time.sleep(60)

sys.meta_path.insert(0, Waiting())
"""


@pytest.mark.parametrize(
    "moment", ["threading", "numpy", "totalqboost.estimator", "totalqboost.cli.app"]
)
@pytest.mark.parametrize(
    "program", [[PROGRAM], [sys.executable, "-m", "totalqboost"]], ids=["script", "module"]
)
def test_ctrl_c_while_packages_are_loaded_is_one_line(program, moment, monkeypatch):
    Path("sitecustomize.py").write_text(WAITING)
    paths = [str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("MOMENT", moment)
    ended = interrupted([*program, "--version"], Path("waiting").exists)
    assert ended == (130, "", "Interrupted.\n")


def test_ctrl_c_while_the_command_line_is_read_is_one_line(monkeypatch):
    def stop(*args, **extra):
        raise KeyboardInterrupt

    monkeypatch.setattr(TyperGroup, "make_context", stop)
    result = run("info", "model.json")
    assert result.exit_code == 130
    assert result.output == "Interrupted.\n"


# On PYTHONPATH: what runs when the program has done its work and Python ends.
ENDING = """
import atexit, pathlib, time
atexit.register(lambda: (pathlib.Path("waiting").touch(), time.sleep(3)))
"""


@pytest.mark.parametrize(
    "program", [[PROGRAM], [sys.executable, "-m", "totalqboost"]], ids=["script", "module"]
)
def test_ctrl_c_after_the_work_is_done_changes_nothing(program, monkeypatch):
    Path("sitecustomize.py").write_text(ENDING)
    paths = [str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    status, out, err = interrupted([*program, "--version"], Path("waiting").exists)
    assert (status, err) == (0, "")
    assert out.startswith("totalqboost ")


@pytest.mark.parametrize("argument", ["totalqboost", "-m"])
def test_ctrl_c_in_the_program_of_somebody_else_is_an_exception(argument):
    """Whatever its arguments and its name, and in the workers of ours too."""
    code = "import sys; {}; import totalqboost, signal; signal.raise_signal(signal.SIGINT)"
    for before in ("pass", "sys.argv = ['/bin/totalqboost']"):
        command = [sys.executable, "-c", code.format(before), argument]
        ended = interrupted(command, lambda: False)
        assert ended[0] != 130
        assert ended[2].rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, typer.Abort])
def test_ctrl_c_while_a_table_is_read_is_one_line(monkeypatch, stop):
    def interrupt(*args):
        raise stop

    monkeypatch.setattr("totalqboost.cli.many.read_table", interrupt)
    result = run(*FIT)
    assert result.exit_code == 130
    assert result.output == "Interrupted.\n"


INSTALL = 'install with pip install "totalqboost[cli]"'


def test_without_the_extra_it_says_what_to_install():
    code = """
import sys
sys.modules["typer"] = sys.modules["rich"] = None  # as if they were not installed
from totalqboost.cli import main
main()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == f"error: the command line needs typer, rich; {INSTALL}\n"


@pytest.mark.parametrize("package", ["typer", "rich", "pandas", "matplotlib"])
def test_any_package_missing_from_the_extra_is_named(package, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"error: the command line needs {package}; {INSTALL}\n"


# -- demo --------------------------------------------------------------------------------


@pytest.fixture
def small_waveform(monkeypatch):
    """A demo that takes no time."""
    from totalqboost.cli import demo

    monkeypatch.setitem(demo.GENERATORS, "waveform", lambda: datasets.make_waveform(500))


def test_demo_saves_what_its_next_commands_need(small_waveform):
    result = run("demo", "--max-learners", 4, "--out", "tour de force")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    folder = Path("tour de force")
    files = ["frontier.png", "model.json", "train.csv", "validation.csv"]
    assert sorted(path.name for path in folder.iterdir()) == files
    assert (folder / "frontier.png").read_bytes().startswith(b"\x89PNG")
    for text in ("400 rows to train on, 100 for validation", "stopped early", "Next, try"):
        assert text in result.stdout

    rows = [line.split("│") for line in result.stdout.splitlines() if line.count("│") == 6]
    assert [row[1].strip("* ") for row in rows] == ["1", "2", "3", "4"]
    (chosen,) = [row for row in rows if "*" in row[1]]
    assert Ensemble.load(folder / "model.json").n_learners == int(chosen[1].strip("* "))

    command = ("predict", folder / "model.json", folder / "validation.csv", "--target", "y")
    assert f"Error {chosen[3].strip()} " in run(*command).stderr
    command = ("fit", folder / "train.csv", "--target", "y", "--max-learners", 3)
    assert run(*command).exit_code == 0


def test_demo_may_be_repeated_but_spares_the_files_of_others(small_waveform):
    for _ in range(2):
        assert run("demo", "--max-learners", 1).exit_code == 0
    Path("train.csv").write_text("precious")
    complaint = error_of("demo", "--max-learners", 1, "--out", ".")
    assert "train.csv exists already; add --overwrite" in complaint
    assert Path("train.csv").read_text() == "precious"
    assert not Path("model.json").exists()
    assert "cannot write data.csv: " in error_of("demo", "--out", "data.csv")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [("--help",), ("info", "model.json")])
def test_a_full_standard_output_is_one_sentence(model, arguments):
    with open("/dev/full", "w") as full:
        program = [sys.executable, "-m", "totalqboost", *arguments]
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr == ("error: cannot write to standard output: no space left on device\n")


def test_a_model_of_features_of_one_name_is_refused(tmp_path):
    model = Ensemble((Stump(0, 0.5), Stump(1, 0.5)), (1.0, 0.5), 0.0, (0, 1), ("a", "a"))
    model.save(tmp_path / "model.json")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    complaint = error_of("predict", tmp_path / "model.json", tmp_path / "rows.csv")
    assert complaint == "the model has several features named 'a', so names are not enough"
