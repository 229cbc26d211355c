"""What stands behind "How the constants were chosen" in docs/generalization.md."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import contenders
import generalization
import generalization_report
import tuning
from generalization_values import Values, summary
from models import OWN
from stump_models import StumpModel, Task, of_ensemble

from totalqboost import TotalQBoostClassifier, datasets, selection


def small_task():
    X, y = datasets.make_twonorm(120, seed=0)
    return Task(X[:, :4].copy(), y, "logistic", 4.0 / 120, True)


def arguments_for(folder, data=("thyroid", "heart"), splits=(100, 101), **others):
    known = dict(
        rows=500,
        again=[],
        jobs=1,
        workers=None,
        scheduler=None,
        studies=False,
        report=False,
        quick=False,
    )
    lists = dict(datasets=list(data), splits=list(splits), contenders=["fit"])
    return Namespace(folder=folder, **(known | lists | others))


def line(data, split, name="fit", **values):
    """Return a line whose records are named settings with (error, log-loss, stumps)."""
    records = [
        {"who": who, "size": OWN, "error": error, "log_loss": loss, "cuts": cuts}
        | {"auc": 0.9, "calibration": 0.1}
        for who, (error, loss, cuts) in values.items()
    ]
    job = {"data": data, "split": split, "contender": name, "rows": 500}
    return job | {"seconds": 1.0, "records": records}


def values_of(*lines):
    data = tuple(dict.fromkeys(x["data"] for x in lines))
    return Values(summary(lines, arguments_for(None, data), ["fit"]))


# -- candidates -----------------------------------------------------------------------------


def test_defaults_of_the_library_are_among_the_candidates():
    default = sorted(tuning.AUTO_L1 * factor for factor in selection.L1_FACTORS)
    assert tuple(default) in tuning.GRIDS
    assert tuning.factors(default) == selection.L1_FACTORS  # in the same order
    assert tuning.AUTO_PRICE in tuning.PRICES
    assert tuning.AUTO_L1 in tuning.L1_PRICES


def test_the_default_cell_is_what_a_user_gets_who_sets_nothing(monkeypatch):
    monkeypatch.setattr(tuning, "PRICES", (tuning.AUTO_PRICE,))
    monkeypatch.setattr(tuning, "L1_PRICES", (tuning.AUTO_L1,))
    task = small_task()
    ((models,),) = [found.values() for found in tuning.fits(task, ()).values()]
    default = of_ensemble(TotalQBoostClassifier(random_state=0).fit(task.X, task.y).ensemble_)
    assert models.weights == pytest.approx(default.weights)
    assert models.weights


def test_cross_validation_over_the_default_prices_is_the_default_one(monkeypatch):
    monkeypatch.setattr(tuning, "GRIDS", ((1.0, 16.0), (2.0, 4.0, 8.0)))
    task = small_task()
    before = selection.L1_FACTORS
    found = tuning.cross_validations(task, (2, 5))
    assert before == selection.L1_FACTORS
    (default,) = contenders.ours_cv(task, (2, 5)).values()
    assert found["νn = 2, 4, 8"] == default
    assert found["νn = 1, 16"] != default


def test_raw_scores_have_the_same_labels_and_other_probabilities(monkeypatch):
    monkeypatch.setattr(tuning, "GRIDS", ((4.0,),))
    task = small_task()
    calibrated, raw = tuning.cross_validations(task, (3,)).values()
    scores, raw_scores = calibrated[3].scores(task.X), raw[3].scores(task.X)
    np.testing.assert_array_equal(scores > 0, raw_scores > 0)
    ratio = scores / raw_scores
    np.testing.assert_allclose(ratio, ratio[0])
    assert abs(ratio[0] - 1.0) > 1e-3


# -- splits and lines -----------------------------------------------------------------------


def test_constants_are_never_chosen_on_splits_that_report(capsys):
    assert min(tuning.parse([]).splits) >= generalization.N_REPORTING
    with pytest.raises(SystemExit):
        tuning.parse(["--splits", "100", "3"])
    assert "--splits must be >= 100, got 3" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        tuning.parse(["--again", "LightGBM"])
    assert "--again must be among fit, CV, got LightGBM" in capsys.readouterr().err


def test_quick_is_one_small_set_and_goes_elsewhere():
    arguments = tuning.parse(["--quick"])
    assert (arguments.datasets, arguments.splits) == (["thyroid"], [100])
    assert arguments.folder == Path("runs/tuning/quick")
    assert arguments.out.name == "quick"
    assert tuning.parse([]).folder == Path("runs/tuning")


def test_after_ctrl_c_only_what_is_left_is_measured(tmp_path):
    calls = []

    def stops(task, sizes):
        calls.append(len(task.y))
        if len(calls) == 4:  # one call warms up
            raise KeyboardInterrupt
        return {"a": {OWN: StumpModel({}, 0.1)}}

    arguments = arguments_for(tmp_path / "runs")
    with pytest.raises(SystemExit, match="what is done is kept"):
        generalization.results_of(arguments, {"fit": stops})
    assert len(generalization.read_lines(arguments.folder)) == 2
    assert generalization.results_of(arguments, {"fit": stops}) is None
    assert len(calls) == 4 + 1 + 2
    done = [(x["data"], x["split"]) for x in generalization.read_lines(arguments.folder)]
    assert done == [("thyroid", 100), ("heart", 100), ("thyroid", 101), ("heart", 101)]


def test_an_error_of_ours_is_raised_and_a_peers_is_written_down():
    def fails(task, sizes):
        raise ValueError("no model\nat all")

    with pytest.raises(ValueError, match="no model"):
        generalization.compete(("thyroid", 100, "fit", 500), fails)
    absent = generalization.compete(("thyroid", 100, "CART", 500), fails)
    assert absent["absent"] == "ValueError: no model"


# -- report ---------------------------------------------------------------------------------


def test_contenders_with_fewer_splits_are_listed_with_their_number():
    every = {"b": (1.0, 1.0, 1)}
    lines = [line(data, split, **every) for data in ("heart", "german") for split in (100, 101)]
    lines += [line("heart", split, "slow", **every) for split in (100, 101)]
    lines += [line("german", 100, "slow", **every)]
    found = summary(lines, arguments_for(None, ("heart", "german")), ["fit", "slow", "gone"])
    assert found["fewer_splits"] == {"slow": [1, 2]}
    assert found["missing"] == ["gone"]
    assert generalization_report.absent(found) == [
        "- gone: has not run.",
        "- slow: ran on 1 to 2 of 2 splits only.",
    ]


def test_differences_are_other_minus_default_over_sets():
    cells = [
        line(data, split, default=(10.0 + i, 0.5, 4), other=(9.0 + 3 * i, 0.5, 4))
        for i, data in enumerate(("heart", "german"))
        for split in (100, 101)
    ]
    text = tuning.settings_table("x", values_of(*cells), ["default", "other"], "default", [OWN])
    row = text.splitlines()[-1]
    assert "| +0.00 ± 1.00 |" in " ".join(row.split())  # of -1 and +1
    assert "**default**" in text


def test_findings_name_a_setting_that_is_better_and_not_larger():
    sets = ("heart", "german")
    settings = {"default": (10.0, 0.5, 8), "larger": (9.0, 0.4, 9), "half": (9.0, 0.6, 4)}
    lines = [line(data, split, **settings) for data in sets for split in (100, 101)]
    values = values_of(*lines)
    assert tuning.dominating(values, list(settings), "default") == []
    settings["better"] = (9.5, 0.49, 8)
    values = values_of(*(line(data, split, **settings) for data in sets for split in (100, 101)))
    assert tuning.dominating(values, list(settings), "default") == ["better"]
    said = tuning.findings(values, list(settings), "default")
    assert said[0].endswith("no more stumps: **no** (better).")


def test_findings_name_what_is_significantly_better_at_any_size():
    rng = np.random.default_rng(0)
    lines = []
    for data in datasets.names():
        error = float(rng.uniform(10.0, 20.0))
        own, larger = (error, 0.5, 8), (error - rng.uniform(0.5, 1.0), 0.5, 20)
        lines += [line(data, split, default=own, larger=larger) for split in (100, 101)]
    error, loss = tuning.findings(values_of(*lines), ["default", "larger"], "default")[1:]
    assert error.endswith("significantly lower error: **no** (larger).")
    assert loss.endswith("significantly lower log-loss: yes.")


def test_the_best_small_setting_is_named_if_it_is_not_the_default():
    settings = {"default": (10.0, 0.4, 8), "small": (9.0, 0.5, 13), "large": (1.0, 0.1, 14)}
    values = values_of(*(line("heart", split, **settings) for split in (100, 101)))
    error, loss = tuning.within_limit(values, list(settings), "default")
    assert error.endswith("least error: **no** (small).")
    assert loss.endswith("least log-loss: yes.")


def test_the_page_marks_the_defaults_and_says_what_is_not_measured_yet():
    cells = {tuning.cell(p, l1): (10.0, 0.5, 8) for p in (0.5, 1.0) for l1 in (4.0,)}
    grids = {tuning.offer((4.0,), is_raw): (9.0, 0.4, 7) for is_raw in (False, True)}
    lines = [line(data, 100, **cells) for data in ("heart", "german")]
    for x in [line(data, 100, "CV", **grids) for data in ("heart", "german")]:
        x["records"] += [r | {"size": 3} for r in x["records"]]
        lines.append(x)
    arguments = arguments_for(None, ("heart", "german"), splits=(100,))
    configuration = {"rows": 500, "sizes": [3], "prices": [0.5, 1.0], "l1_prices": [4.0]}
    configuration |= {"grids": [[4.0]], "default": [0.5, 4.0], "default_grid": [4.0]}
    results = summary(lines, arguments, tuning.CANDIDATES)
    text = tuning.render({"configuration": configuration, "results": results})
    assert "**λn = 0.5, νn = 4**" in text
    assert "**νn = 4**" in text
    assert "Not measured yet" not in text
    results = summary(lines[:-1], arguments, tuning.CANDIDATES)
    text = tuning.render({"configuration": configuration, "results": results})
    assert text.endswith("Not measured yet:\n\n- CV: ran on 0 to 1 of 1 splits only.")
