"""The page of a run: what stands in it, what the command says, and how a browser shows it."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import DESKTOP, PHONE, chromium, pages_of
from ensembles import mixed_ensemble, mixed_frame
from typer.testing import CliRunner

from totalqboost.cli import report as command
from totalqboost.cli.app import app
from totalqboost.datasets import names as paper_names
from totalqboost.ensemble import Ensemble
from totalqboost.experiments.folder import Run, read_run
from totalqboost.experiments.report import render
from totalqboost.experiments.report.ensembles import choose, offered, shapes
from totalqboost.experiments.report.headlines import Estimate, estimate, headlines, savings
from totalqboost.experiments.report.page import points
from totalqboost.experiments.report.panels import ensemble_entry, panels, shown_first
from totalqboost.experiments.report.tables import (
    difference_lines,
    gain_lines,
    share_lines,
    time_lines,
)
from totalqboost.experiments.rows import Row
from totalqboost.experiments.statistics import Difference, compare
from totalqboost.learners import Constant, Stump

HOSTILE = '<img src=x onerror=alert(1)> & "co"'
NAMES = ("flare solar", "heart", HOSTILE)
SIZES = {"A": (2, 5, 9), "B": range(1, 13), "C": (1, 3, 6), "D": (2, 4, 7), "E": (2, 3, 8)}
PENALTY = {"A": 0.01, "B": 1e-6, "C": 0.02, "D": 0.03, "E": 0.004}


def some_ensemble(n_learners: int, n_features: int = 4, seed: int = 0) -> Ensemble:
    """Stumps and, from three learners on, a constant, heaviest first."""
    rng = np.random.default_rng(seed)
    learners: list[Any] = [
        Stump(int(rng.integers(n_features)), round(rng.normal(), 2), int(rng.choice([-1, 1])))
        for _ in range(n_learners)
    ]
    if n_learners > 2:
        learners[-1] = Constant(-1)
    return Ensemble(tuple(learners), tuple(np.linspace(1, 0.1, n_learners).tolist()))


def some_row(dataset: str, split: int, strategy: str, n_learners: int, **changes: Any) -> Row:
    """A row whose error falls with the size; on split 0 it comes with its ensemble."""
    shift = {"A": 2, "B": 1}.get(strategy, 0) + split
    n_valid = 50 + split
    ensemble = some_ensemble(n_learners, seed=ord(strategy[0])).to_dict()
    ensemble["features"] = [{"name": f"x{feature}"} for feature in range(4)]
    return Row(
        **{
            "dataset": dataset,
            "split": split,
            "strategy": strategy,
            "penalty": PENALTY[strategy] / n_learners if strategy in PENALTY else None,
            "round": n_learners if strategy in ("B", "adaboost") else None,
            "n_learners": n_learners,
            "risk": 1 / (1 + n_learners) + 0.01 * shift,
            "objective": 1.0,
            "bound": None,
            "train_error": 0.2 / n_learners,
            "valid_error": (20 - n_learners + shift) / n_valid,
            "n_train": 200,
            "n_valid": n_valid,
            "seconds": 0.5,
            "ensemble": ensemble if split == 0 else None,
            **changes,
        }
    )


def some_rows(names: tuple[str, ...] = NAMES, n_splits: int = 3) -> list[Row]:
    return [
        some_row(name, split, strategy, size)
        for name in names
        for split in range(n_splits)
        for strategy, sizes in {**SIZES, "adaboost": (1, 2)}.items()
        for size in sizes
    ]


def fill(folder: Path, rows: list[Row], config: object = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row.to_dict()) + "\n" for row in rows]
    (folder / "rows.jsonl").write_text("".join(lines), encoding="utf-8")
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


CONFIG = {"settings": {"solver": "local", "tol": 5e-4}, "jobs": 2, "wall_seconds": 252.4}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> Path:
    return fill(tmp_path_factory.mktemp("runs") / "three splits", some_rows(), CONFIG)


def call(*args: object):
    return CliRunner(env={"COLUMNS": "80"}).invoke(
        app, [str(a) for a in args], catch_exceptions=False
    )


def error_of(*args: object) -> str:
    """Run the command on bad input; return its one sentence."""
    result = call("report", *args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("error: ").rstrip("\n")


# -- ensembles ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_shapes_and_constant_add_up_to_the_score(seed):
    ensemble = some_ensemble(20, seed=seed)
    X = np.random.default_rng(seed).normal(size=(200, 4)).round(2)  # some lie on thresholds
    constant, functions = shapes(ensemble)
    total = constant + sum(shape(X[:, shape.number]) for shape in functions)
    np.testing.assert_allclose(total[:, 0], ensemble.decision_function(X), atol=1e-12)
    spans = [shape.span for shape in functions]
    assert spans == sorted(spans, reverse=True)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_all_kinds_have_shapes_that_add_up(n_classes):
    model, frame = mixed_ensemble(4, n_classes), mixed_frame(4)
    rows = model.checked_rows(frame)
    constant, functions = shapes(model)
    total = constant + sum(shape(rows[:, shape.number]) for shape in functions)
    found = model.decision_function(frame).reshape(len(frame), -1)
    np.testing.assert_allclose(total, found, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_entries_of_all_kinds_are_plain_values(n_classes):
    model = mixed_ensemble(4, n_classes)
    entry = ensemble_entry(model, {j: [0.0, 1.0] for j in range(5)})
    assert json.loads(json.dumps(entry, allow_nan=False)) == entry
    n_scores = 1 if n_classes == 2 else n_classes
    assert {len(shape["curves"]) for shape in entry["shapes"]} == {n_scores}
    assert [isinstance(w, list) for *_, w in entry["learners"]] == [n_classes > 2] * 14
    by_name = {shape["feature"]: shape for shape in entry["shapes"]}
    assert by_name["city"]["categories"] == ["Basel", "Bern", "Genf", "Zug", "missing"]
    assert by_name["age"]["missing"] is not None
    assert by_name["dose"]["missing"] is None
    conditions = {when for _, when, threshold, _ in entry["learners"] if threshold is None}
    assert "not missing" in conditions or "missing" in conditions
    assert any(when.endswith(" or missing") for when in conditions)


def test_ensembles_on_the_frontiers_are_offered_and_no_others():
    rows = [
        some_row("heart", 0, "C", 2, valid_error=0.30),
        some_row("heart", 0, "D", 3, valid_error=0.32),  # larger and worse
        some_row("heart", 0, "B", 4, valid_error=0.40),  # convex: a frontier of its own
        some_row("heart", 0, "adaboost", 5, valid_error=0.50),
        some_row("heart", 1, "C", 2, valid_error=0.20),  # was not kept
    ]
    assert [row.strategy for row in offered(rows)] == ["C", "B", "adaboost"]


def test_smallest_penalized_ensemble_within_one_standard_error_is_chosen():
    errors = {1: 0.40, 4: 0.26, 9: 0.22}  # one standard error of 0.22 on 50 rows is 0.059
    rows = [some_row("heart", 0, "C", size, valid_error=error) for size, error in errors.items()]
    rows.append(some_row("heart", 0, "B", 2, valid_error=0.21))
    assert choose(rows) == 1
    assert choose(rows[-1:]) == 0
    assert choose([]) is None


def test_ensemble_of_fewest_learners_but_of_three_is_shown_first():
    sizes = [7, 1, 3, None, 3]
    found = [
        {"chosen": None, "ensembles": []}
        if size is None
        else {"chosen": 0, "ensembles": [{"n": size}]}
        for size in sizes
    ]
    assert shown_first(found) == 2
    assert shown_first(found[1:2]) == 0
    assert shown_first(found[3:4]) is None


# -- headlines ------------------------------------------------------------------------------


def risky_row(strategy: str, n_learners: int, risk: float, **changes: Any) -> Row:
    return some_row("heart", 0, strategy, n_learners, risk=risk, ensemble=None, **changes)


def test_savings_are_learners_that_the_same_risk_needs_less():
    plain = [risky_row("B", size, 1 / size) for size in (1, 2, 4, 8)]
    half = [risky_row("C", size, 1 / (2 * size)) for size in (1, 2, 4)]
    assert savings([*plain, *half])["heart"].mean == pytest.approx(0.5)
    between = risky_row("C", 2, 0.375)  # 3 learners of B, by interpolation
    assert savings([*plain, between])["heart"].mean == pytest.approx(1 / 3)
    worse = risky_row("C", 4, 0.5)
    assert savings([*plain, worse])["heart"].mean == pytest.approx(-1.0)
    beyond = risky_row("C", 2, 0.01)  # which B never reaches: in doubt for B
    assert savings([*plain, *half, beyond])["heart"].mean <= 0.5
    assert savings(plain) == {} == savings(half)


def test_interval_is_over_data_sets_or_over_splits():
    def difference(mean: float, standard_error: float | None = 0.3) -> Difference:
        return Difference(mean, standard_error, 1.0, 4)

    three = estimate({"a": difference(1.0), "b": difference(2.0), "c": difference(3.0, None)})
    half = 4.302653 * 3**-0.5  # t of 0.975 with two degrees of freedom, standard error
    assert three is not None
    assert (three.mean, three.over) == (2.0, "3 data sets")
    assert (three.low, three.high) == pytest.approx((2 - half, 2 + half), abs=1e-5)
    two = estimate({"a": difference(1.0, 0.3), "b": difference(2.0, 0.4)})
    half = 3.182446 * 0.5 / 2
    assert two is not None
    assert (two.mean, two.over) == (1.5, "4 splits")
    assert (two.low, two.high) == pytest.approx((1.5 - half, 1.5 + half), abs=1e-5)
    assert estimate({"a": difference(1.0, None), "b": difference(2.0)}) is None
    assert estimate({}) is None


def test_headlines_say_in_words_how_sure_they_are(monkeypatch, run_folder):
    from totalqboost.experiments.report import headlines as module

    found = iter(
        [Estimate(0.15, 0.1, 0.19, "12 data sets"), Estimate(0.0, -0.006, 0.007, "3 splits")]
    )
    monkeypatch.setattr(module, "estimate", lambda _: next(found))
    run = read_run(run_folder)
    saved, error, sure = headlines(run, compare(run.rows))
    assert saved.value == "15\xa0% fewer"
    assert saved.doubt == "95\xa0% interval 10 to 19\xa0% fewer, 12 data sets"
    assert error.value == "no difference shown"
    between = "0.60\xa0points lower to 0.70\xa0points higher"
    assert error.doubt == f"0.00\xa0points lower; 95\xa0% interval {between}, 3 splits"
    assert saved.estimate.high < 0  # fewer learners and lower errors are both on the left
    assert (sure.value, sure.doubt[:21]) == ("not known yet", "3 splits prove nothin")


def test_sure_differences_survive_a_correction_for_all_data_sets(tmp_path):
    run = read_run(fill(tmp_path, some_rows(("heart", "thyroid", "image"), 8)))
    *_, sure = headlines(run, compare(run.rows))
    lines = difference_lines(run.datasets, compare(run.rows))
    assert [line.is_sure for line in lines] == [True] * 3
    assert sure.value == "3 of 3"
    named = "3 lower (heart, image, thyroid), 0 higher"
    assert sure.doubt == f"{named}; 5\xa0% level, corrected for 3 tests"
    assert all(line.low < line.difference.mean < line.high for line in lines)
    many = {**compare(run.rows), **dict.fromkeys("abcdefghij", compare(run.rows)["heart"])}
    weak = replace(many["heart"], overall=replace(many["heart"].overall, p_value=0.04))
    many = dict.fromkeys(many, weak)  # 0.04 is no surprise among thirteen
    assert [line.is_sure for line in difference_lines(run.datasets, many)] == [False] * 3
    assert headlines(run, many)[-1].value == "0 of 13"
    strong = replace(weak, overall=replace(weak.overall, p_value=0.001))
    doubt = headlines(run, dict.fromkeys(many, strong))[-1].doubt
    assert doubt.startswith("13 lower, 0 higher; ")  # the table names them
    assert headlines(run, {"heart": weak})[-1].value == "1 of 1"


def test_without_uncertainty_there_is_no_headline(tmp_path):
    page = render(read_run(fill(tmp_path, some_rows(("heart", "thyroid"), 1))))
    assert '<dl class="tiles">' not in page
    assert "does not tell how sure its figures are" in page


def test_charts_are_told_in_words_at_sizes_that_both_groups_have(run_folder):
    told = panels(read_run(run_folder))[1]["summary"]
    sizes = [int(n) for n in re.findall(r"With (\d+) learner", told)]
    both = set(SIZES["B"]) & {n for key in "CDE" for n in SIZES[key]}
    assert sizes == sorted(sizes)
    assert len(sizes) == 3
    assert set(sizes) <= both
    assert told.count("convex") == told.count("penalized") == 3


def test_what_only_one_of_several_splits_has_is_no_mean(tmp_path):
    rows = some_rows(("heart", "thyroid"), 2)
    alone = some_row("heart", 0, "C", 11, valid_error=0.01)  # would end the frontier
    without = [row for row in rows if row.dataset == "heart" or row.split == 0]
    run = read_run(fill(tmp_path, [*without, alone]))
    heart, thyroid = panels(run)
    means, of_size = heart["means"]["cp"], heart["by_size"]["cp"]
    assert of_size[11] == [1.0, None, 1]
    assert 11 not in means["n"]
    assert {of_size[n][2] for n in means["n"]} == {2}
    assert None not in [of_size[n][1] for n in means["n"]]
    assert max(means["frontier"]) < len(means["n"])
    assert thyroid["means"] == {}
    assert 11 in [heart["rows"]["n"][i] for i in heart["groups"][0]["cp"]["rows"]]
    assert "at least 2 of 2" in render(run)


def test_names_stand_beside_the_number_of_validation_rows(run_folder):
    heart = panels(read_run(run_folder))[1]
    assert heart["caption"] == "50–52 validation rows"


# -- tables ---------------------------------------------------------------------------------


def test_gains_stand_beside_those_of_the_paper(run_folder):
    table = gain_lines(read_run(run_folder))
    star, *others = table["flare solar"]
    assert (star.id, star.paper["cardinality"], star.paper["generalization_gain_pct"]) == (
        "*",
        3,
        25.0,
    )
    assert star.ours is None
    assert [line.ours["cardinality"] for line in others] == [8, 7, 6, 4, 3]
    assert all(line.paper is None for line in table["heart"])


def test_shares_and_times_follow_from_the_rows(run_folder):
    run = read_run(run_folder)
    shares = share_lines(run)
    assert [round(line.paper, 4) for line in shares] == [0.0161, 0.0205, 0.2381, 0.1301]
    assert [line.ours.n_worse for line in shares] == [0, 0, 0, 0]
    times = {line.strategy: line for line in time_lines(run)}
    assert times["B"].n_ensembles == 3 * 3 * 12
    assert times["B"].seconds == pytest.approx(18.0)  # of a split
    assert "lpboost" not in times


def test_d_without_answers_of_e_is_compared_with_the_paper(run_folder, tmp_path):
    rows = [*some_rows(), some_row("heart", 0, "D0", 3, penalty=0.1, risk=0.5)]
    run = read_run(fill(tmp_path, rows))
    shares = [(line.strategy, line.paper) for line in share_lines(run)]
    first = [("E", 0.0161), ("E", 0.0205), ("D", None), ("D", None)]
    assert shares == [*first, ("D0", 0.2381), ("D0", 0.1301)]
    assert share_lines(run)[4].ours.n_worse == 1
    assert "D0, which is D without E’s answers, is the one to compare" in render(run)
    assert "and is no fair comparison" in render(read_run(run_folder))


def test_times_are_of_a_median_split_and_of_whole_strategies():
    def row(split: int, number: int, seconds: float, strategy: str = "B") -> Row:
        one = some_row("heart", split, strategy, number, ensemble=None)
        return replace(one, round=number, seconds=seconds)

    rows = [row(split, number, 1.0) for split in range(3) for number in (1, 2)]
    rows.append(row(1, 3, 1000.0))  # the machine slept
    rows += [row(0, number, 1.0, "adaboost") for number in (5, 10)]  # others were not kept
    run = Run("run", tuple(rows), {})
    times = {line.strategy: line.seconds for line in time_lines(run)}
    assert times == {"B": 2.0, "adaboost": None}


def test_minus_signs_are_minus_signs():
    assert points(-0.0123) == "−1.23"
    assert points(0.5) == "+50.00"


# -- the page as text -----------------------------------------------------------------------


def test_page_holds_the_tables_and_escapes_names(run_folder):
    page = render(read_run(run_folder))
    text = re.sub(r'<script type="application/gzip".*?</script>', "", page, flags=re.DOTALL)
    assert len(page) < 6e6
    assert "<img" not in text
    assert "&lt;img src=x" in text
    paper = ("1.61\xa0%", "23.81\xa0%", "4,838,400 core hours")
    for expected in (*paper, "4 min 12 s", "Nadeau", "3 data sets took"):
        assert expected in text
    assert not re.search(r"https?://", text)
    for gone in ("Largest saving", "on risk", "Least error of any size"):
        assert gone not in text


def test_one_split_without_config_or_ensembles_makes_a_page(tmp_path):
    rows = [some_row("heart", 0, "B", size, ensemble=None) for size in (1, 2)]
    rows.append(replace(some_row("heart", 0, "C", 1), n_learners=0, ensemble=None))
    page = render(read_run(fill(tmp_path, rows)))
    assert '<option value="mean"' not in page
    assert '<table class="gains">' not in page  # it would be empty
    assert "No gain, here and in the paper: heart." in page
    assert "Which differences are real" not in page
    assert "no ensemble was kept" in page
    assert "No config.json stands beside the rows." in page


# -- the command ----------------------------------------------------------------------------


def test_command_writes_page_and_picture(run_folder, tmp_path, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr(command.webbrowser, "open", opened.append)
    page, pictures = tmp_path / "page.html", tmp_path / "new" / "pictures"
    result = call("report", run_folder, "--out", page, "--png", pictures, "--open")
    assert result.exit_code == 0, result.output
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert (pictures / "error_against_size.png").read_bytes().startswith(b"\x89PNG")
    assert opened == [page.as_uri()]
    assert f"Page written to {page}" in result.stdout


def test_page_in_the_folder_of_the_run_is_replaced_but_no_other(run_folder, tmp_path):
    for _ in range(2):
        assert call("report", run_folder).exit_code == 0
    assert (run_folder / "report.html").exists()
    own = tmp_path / "notes.html"
    own.write_text("mine")
    assert "--overwrite" in error_of(run_folder, "--out", own)
    assert own.read_text() == "mine"
    assert call("report", run_folder, "--out", own, "--overwrite").exit_code == 0


def test_compressed_rows_are_read(tmp_path):
    fill(tmp_path, some_rows(("heart",), 1))
    plain = tmp_path / "rows.jsonl"
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert call("report", tmp_path).exit_code == 0


def test_bad_folders_are_one_sentence(tmp_path):
    assert error_of(tmp_path / "none") == f"there is no folder {tmp_path / 'none'}"
    assert "there is no rows.jsonl or rows.jsonl.gz in it" in error_of(tmp_path)
    rows = tmp_path / "rows.jsonl"
    rows.write_text("")
    assert error_of(tmp_path) == f"{rows} has no rows yet"
    rows.write_text('{"dataset": "heart"}\n')
    assert f"{rows}, line 1: " in error_of(tmp_path)
    rows.write_text("not json\n")
    assert f"{rows}, line 1: not a JSON object" in error_of(tmp_path)
    rows.unlink()
    (tmp_path / "rows.jsonl.gz").write_bytes(b"no gzip")
    assert "is damaged" in error_of(tmp_path)
    rows.mkdir()
    assert error_of(tmp_path) == f"cannot read {rows}: is a directory"


BAD_VALUES = {
    "wall_seconds": ("1e999", "1" * 400, '"long"', "null", "-1"),
    "max_rounds": ('"many"', "null", "1e999", "1.5", "1" * 400),
    "hot_share": ('"half"', "null", "1" * 400, "1e308"),
    "fit_intercept": ("1",),
    "solver": ("null",),
}
BAD_CONFIGS = ["{", "[]", "[" * 100_000, '{"jobs": 1, "jobs": 2}', '{"settings": [1]}']
for name, values in BAD_VALUES.items():
    entries = [f'{{"{name}": {value}}}' for value in values]
    is_setting = name != "wall_seconds"
    BAD_CONFIGS += [f'{{"settings": {entry}}}' if is_setting else entry for entry in entries]


@pytest.mark.parametrize("content", BAD_CONFIGS)
def test_damaged_config_is_one_sentence(tmp_path, content):
    fill(tmp_path, some_rows(("heart",), 1))
    (tmp_path / "config.json").write_text(content)
    assert "config.json is damaged" in error_of(tmp_path)


def test_damaged_ensemble_is_one_sentence(tmp_path):
    bad = {**some_row("heart", 0, "C", 2).ensemble, "intercept": "much"}
    fill(tmp_path, [some_row("heart", 0, "C", 2, ensemble=bad)])
    sentence = error_of(tmp_path)
    assert "rows.jsonl, line 1: intercept must be" in sentence


def test_an_ensemble_of_more_features_than_the_data_have_makes_a_page(tmp_path):
    row = some_row("heart", 0, "C", 2)
    ensemble = {**row.ensemble, "features": [{"name": f"x{j}"} for j in range(40)]}
    ensemble["learners"] = [{**learner, "feature": 39} for learner in ensemble["learners"]]
    fill(tmp_path, [replace(row, ensemble=ensemble)])
    assert call("report", tmp_path).exit_code == 0
    ensemble["learners"] = [{**learner, "feature": 10**9} for learner in ensemble["learners"]]
    fill(tmp_path, [replace(row, ensemble=ensemble)])
    assert "feature must be from 0 to 39, got 1000000000" in error_of(tmp_path)


def test_unwritable_output_is_one_sentence(run_folder, tmp_path):
    assert "there is no folder" in error_of(run_folder, "--out", tmp_path / "no" / "page.html")
    assert "it is not a file" in error_of(run_folder, "--out", tmp_path)
    rows = run_folder / "rows.jsonl"
    assert "it is the input" in error_of(run_folder, "--out", rows, "--overwrite")
    (tmp_path / "file").write_text("")
    assert "cannot write" in error_of(run_folder, "--png", tmp_path / "file")


def test_missing_extra_is_named(run_folder, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "plotly" else object())
    sentence = error_of(run_folder)
    assert sentence == 'the report needs plotly; install with pip install "totalqboost[report]"'


# -- in a browser ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def page_file(run_folder, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(render(read_run(run_folder)), encoding="utf-8")
    return path


@pytest.fixture
def open_page(browser, page_file) -> Iterator[Any]:
    with pages_of(browser, page_file) as open_page:
        yield open_page


@pytest.fixture(scope="module", params=[2, 12], ids=["two", "twelve"])
def sized_file(request, tmp_path_factory) -> Path:
    """A page of two data sets or of twelve."""
    folder = tmp_path_factory.mktemp("sized")
    names = ("heart", "thyroid", *(n for n in paper_names() if n not in ("heart", "thyroid")))
    long = some_row("heart", 0, "C", 20, valid_error=0.01)
    run = read_run(fill(folder, [*some_rows(names[: request.param], 2), long]))
    path = folder / "page.html"
    path.write_text(render(run), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened(browser, sized_file) -> Iterator[tuple[Any, Any]]:
    """That page on a desktop and on a phone, opened once for all tests."""
    with pages_of(browser, sized_file) as open_page:
        yield open_page(**DESKTOP), open_page(**PHONE)


@pytest.fixture
def screens(opened) -> tuple[Any, Any]:
    for page in opened:
        page.evaluate("scrollTo(0, 0)")
    return opened


def box(page: Any, selector: str) -> dict[str, float]:
    """Where the first of the elements stands on the page as it opens."""
    script = "n => { const {left, top, right, bottom} = n.getBoundingClientRect();\
        return {left, top, right, bottom}; }"
    return page.locator(selector).first.evaluate(script)


def drawn(page: Any, panel: int = 0) -> dict[str, dict[str, Any]]:
    """What a chart shows: name of the series → sizes, errors and labels of its points."""
    script = """chart => Object.fromEntries(chart.data.map(trace => [trace.name,
        {x: [...trace.x], y: [...trace.y], text: trace.text}]))"""
    return page.locator(".chart").nth(panel).evaluate(script)


def label(page: Any, expected: str = "learner") -> str:
    """The label that hovering shows, once it holds what is expected: it follows after a while."""
    found = page.locator(".hoverlayer .hovertext").filter(has_text=expected).first
    found.wait_for()
    return found.text_content()


def test_all_charts_are_drawn_offline(open_page):
    page = open_page(**DESKTOP)
    assert page.locator(".chart").count() == 3
    for panel, group in ((0, "paper-cp"), (1, "paper-convex"), (2, "cp")):
        chart = page.locator(".chart").nth(panel)
        assert group in drawn(page, panel)
        assert chart.locator(".scatterlayer .point").count() > 10
    assert "paper-cp" not in drawn(page, 2)  # the paper knows no such data set


def test_hovering_shows_the_ensemble(open_page):
    page = open_page(**DESKTOP)
    page.select_option("#split", "0")
    page.locator("input[value=paper-convex]").uncheck()  # its points may lie above ours
    page.locator("input[value=paper-cp]").uncheck()
    chart = page.locator(".chart").first
    chart.scroll_into_view_if_needed()
    series = chart.locator(".scatterlayer .trace").nth(list(drawn(page)).index("cp"))
    point = series.locator(".point").last
    point.hover(force=True)
    shown = label(page, "8 learners")
    for expected in ("24.00 %", "12 of 50", "risk 0.1111", "strategy E", "split 0"):
        assert expected in shown
    assert "λ = 0.0005" in shown


def test_checkboxes_choose_what_is_drawn(open_page):
    page = open_page(**DESKTOP)
    assert set(drawn(page)) >= {"convex", "cp", "paper-convex", "paper-cp"}
    page.locator("summary", has_text="Single strategies").click()
    page.get_by_label("D CPCG, hot start").focus()
    page.keyboard.press("Space")
    page.locator("input[value=cp]").uncheck()
    page.locator("input[value=paper-cp]").uncheck()
    for panel in range(3):
        assert drawn(page, panel)["D"]["x"] == [2, 4, 7]
        assert not {"cp", "cp frontier", "paper-cp"} & drawn(page, panel).keys()
    assert page.locator("input[value=lpboost]").count() == 0  # was not run


def test_splits_and_their_mean_can_be_chosen(open_page):
    page = open_page(**DESKTOP)
    mean = drawn(page)["convex"]
    assert mean["x"] == list(range(1, 13))
    errors = [100 * (20 - 1 + 1 + split) / (50 + split) for split in range(3)]
    assert mean["y"][0] == pytest.approx(np.mean(errors), abs=1e-3)
    overlap = np.mean([(50 + split) / 200 for split in range(3)])  # n_valid / n_train
    error = np.std(errors, ddof=1) * (1 / 3 + overlap) ** 0.5
    shade = drawn(page)["convex shade"]
    assert shade["x"][:5] == [0.5, 1.5, 1.5, 0.5, None]
    assert shade["y"][0] == pytest.approx(mean["y"][0] - error, abs=1e-3)
    assert shade["y"][2] == pytest.approx(mean["y"][0] + error, abs=1e-3)
    page.locator("#split").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    second = drawn(page)["convex"]
    assert second["y"][0] == pytest.approx(errors[1])
    assert "convex shade" not in drawn(page)
    assert "split 1" in second["text"][0]


def test_points_are_walked_and_opened_by_keyboard(open_page):
    page = open_page(**DESKTOP)
    page.select_option("#split", "0")
    page.locator("input[value=paper-convex]").uncheck()
    page.locator("input[value=paper-cp]").uncheck()
    page.locator(".chart").nth(1).focus()
    page.keyboard.press("End")
    assert "strategy B" in label(page, "12 learners")
    assert "12 learners" in page.locator("#reading").text_content()
    page.keyboard.press("ArrowLeft")
    assert "strategy B" in label(page, "11 learners")
    page.keyboard.press("Enter")
    reader = page.locator("#ensembles")
    assert reader.locator("tbody tr").count() == 11
    assert page.locator("#set").evaluate("s => s.selectedOptions[0].text") == "heart"
    assert "11 learners" in page.locator("#kept").evaluate("s => s.selectedOptions[0].text")


def test_means_open_an_ensemble_of_their_size(open_page):
    page = open_page(**DESKTOP)
    page.locator("input[value=paper-convex]").uncheck()
    page.locator("input[value=paper-cp]").uncheck()
    page.locator("input[value=convex]").uncheck()
    page.locator(".chart").first.focus()
    page.keyboard.press("End")
    assert "open one of split 0" in label(page, "8 learners")
    page.keyboard.press("Enter")
    assert page.locator("#ensembles tbody tr").count() == 8
    assert page.evaluate("document.activeElement.id") == "kept"


def test_ensembles_are_read_without_opening_anything(screens):
    page, phone = screens
    reader = page.locator("#ensembles")
    table = reader.locator("table")
    chosen = page.locator("#kept").evaluate("s => s.selectedOptions[0].text")
    title = r"(\d+) learners, error \d+\.\d ± \d+\.\d % \((\w+)\)"
    found = re.fullmatch(title, chosen.replace("\xa0", " "))
    assert found, chosen
    size, strategy = int(found[1]), found[2]
    assert table.locator("tbody tr").count() == size
    caption = table.locator("caption").text_content()  # has what the list has no room for
    how = rf"{size} learners of strategy {strategy}, (λ|ν|round)\s[^,]+, split 0, heaviest first"
    assert re.fullmatch(how, caption), caption
    heads = table.locator("thead th").all_text_contents()
    assert heads[:4] == ["Feature", "Votes +1 if", "Threshold", "Weight"]
    assert reader.locator(".shape .scatterlayer").count() > 0
    assert box(page, "#ensembles tbody tr")["bottom"] < 900  # on the first screen
    assert box(phone, "#ensembles tbody tr")["bottom"] < 2 * 844  # on the second


def test_the_list_of_ensembles_shows_their_whole_titles(screens):
    script = """list => { const style = getComputedStyle(list);
        const pen = new OffscreenCanvas(1, 1).getContext("2d"); pen.font = style.font;
        const arrow = 24, room = list.clientWidth - parseFloat(style.paddingLeft) - arrow;
        const widths = [...list.options].map(one => pen.measureText(one.text).width);
        return room - Math.max(...widths); }"""
    for page in screens:
        assert page.locator("#kept").evaluate(script) >= 0


def test_a_chosen_error_stands_beside_one_that_was_not_chosen(screens):
    for page in screens:
        size = int(page.locator("#kept").evaluate("s => parseInt(s.selectedOptions[0].text)"))
        panel = page.locator("#set").evaluate("s => Number(s.value)")
        mean = drawn(page, panel)["cp"]
        error = mean["y"][mean["x"].index(size)]
        said = page.locator("#ensembles .chosen")
        assert said.is_visible()
        pattern = rf"Chosen on these very rows; mean over 2 splits at this size: {error:.1f} ± \d"
        assert re.match(pattern, said.inner_text())
        assert box(page, ".chosen")["top"] < box(page, "#ensembles table")["top"]


def test_ensembles_are_chosen_by_keyboard_and_by_name(open_page):
    page = open_page(**DESKTOP)
    page.locator("#kept").focus()
    page.keyboard.press("Home")
    assert page.locator("#ensembles tbody tr").count() == 1
    page.get_by_role("button", name="Read an ensemble of heart").click()
    assert page.locator("#set").evaluate("s => s.selectedOptions[0].text") == "heart"
    assert page.locator("#ensembles tbody tr").count() > 1
    assert page.locator(".panel.read .name").text_content() == "heart"


@pytest.mark.parametrize("options", [PHONE, DESKTOP, {"viewport": {"width": 800, "height": 900}}])
def test_page_never_scrolls_sideways(open_page, options):
    page = open_page(**options)
    width = options["viewport"]["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for selector in (".grid", ".chart", "#ensembles", ".shapes"):
        assert box(page, selector)["right"] <= width


# -- what a reader sees first ---------------------------------------------------------------


def test_every_headline_has_its_uncertainty(screens):
    page, _ = screens
    tiles = page.locator(".tiles > div")
    assert tiles.count() == 3
    assert "E worse than" not in page.locator("header").text_content()
    for tile in tiles.all():
        doubt = tile.locator(".doubt")
        assert doubt.is_visible()
        assert re.search(r"95.% interval .* to |corrected for|prove nothing", doubt.inner_text())


def test_first_chart_is_whole_on_the_first_screen(screens):
    for page in screens:
        assert box(page, ".chart")["bottom"] <= page.viewport_size["height"]


def test_charts_of_a_phone_are_swiped(screens):
    _, page = screens
    strip, n = page.locator(".grid"), page.locator(".chart").count()
    tops = {round(box(page, f".panel >> nth={index}")["top"]) for index in range(n)}
    assert len(tops) == 1
    assert strip.evaluate("s => s.scrollWidth > s.clientWidth")
    next_one = box(page, ".panel >> nth=1")["left"]
    assert next_one < 390 - 16  # its edge tells that there is more
    assert box(page, ".panel >> nth=1 >> .ytick text")["left"] > 390 - 16  # but no cut digits
    counter = page.locator(".swipe")
    assert counter.inner_text() == f"1 of {n}, swipe →"
    assert box(page, ".swipe")["bottom"] < box(page, ".chart")["top"]
    page.locator("#set").select_option(index=n - 1)
    page.wait_for_function("document.querySelector('.grid').scrollLeft > 100")
    page.wait_for_function(f"document.querySelector('.swipe').textContent.startsWith('{n} of')")
    assert box(page, f".panel >> nth={n - 1}")["left"] >= 0
    page.locator("#set").select_option(index=0)
    page.wait_for_function("document.querySelector('.grid').scrollLeft < 1")


def test_navigation_is_whole_and_has_the_words_of_the_headings(screens):
    for page in screens:
        width = page.viewport_size["width"]
        for link in page.locator("nav a").all():
            edges = link.evaluate("a => [a.getBoundingClientRect().right, a.offsetHeight]")
            assert edges[0] <= width
        words = page.locator("nav a").evaluate_all(
            "links => links.map(a => [a.textContent, document.querySelector(a.hash).innerText])"
        )
        assert len(words) == 7
        for word, section in words[2:]:  # the first two name what stands first
            heading = section.splitlines()[0].lower()
            assert all(part in heading for part in word.lower().split())


def test_fingers_hit_what_they_aim_at(screens):
    _, page = screens
    small = page.evaluate("""() => [...document.querySelectorAll(
        "nav a, .choice, .panel .name, summary, select, button")]
        .filter(node => node.offsetHeight && node.getBoundingClientRect().height < 32)
        .map(node => node.outerHTML.slice(0, 60))""")
    assert small == []


def test_long_names_break_after_underscores(screens):
    page, _ = screens
    made = "named('th', 'region_centroid_row').innerHTML"
    assert page.evaluate(made) == "region_<wbr>centroid_<wbr>row"
    assert page.evaluate("named('th', '<b>_x').textContent") == "<b>_x"


def test_captions_of_a_line_of_charts_are_equally_high(screens):
    page, _ = screens
    tops = page.locator(".panel").evaluate_all(
        "all => all.map(p => p.querySelector('.chart').offsetTop - p.offsetTop)"
    )
    assert len(set(tops)) == 1


def test_the_hint_tells_why_the_papers_marks_may_lie_lower(screens):
    for page in screens:
        hint = page.locator(".hint")
        assert hint.is_visible()
        for expected in ("one split, the least validation error", "chosen by training risk"):
            assert expected in hint.inner_text()


def test_open_marks_of_the_paper_are_seen_on_dark_ground(open_page):
    page = open_page(**DESKTOP, color_scheme="dark")
    colours = page.evaluate("""() => { const style = getComputedStyle(document.documentElement);
        return ["ground", "s-paper-convex", "s-paper-cp"].map(name =>
            style.getPropertyValue(`--${name}`).trim()); }""")

    def light(colour: str) -> float:
        shares = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722]) + 0.05

    ground, *marks = map(light, colours)
    assert min(marks) / ground > 7


def test_colour_means_a_series(open_page):
    page = open_page(**DESKTOP)
    colour = "s => getComputedStyle(document.querySelector(s)).backgroundColor"
    bar = "#ensembles .learners .bar i"
    orange = page.evaluate(colour, bar)
    convex = page.locator("#kept option", has_text="(B)").first.get_attribute("value")
    page.select_option("#kept", value=convex)
    assert page.evaluate(colour, bar) == "rgb(31, 95, 168)" != orange
    name = "getComputedStyle(document.querySelector('.panel.read .name'))"
    assert page.evaluate(f"{name}.color") == page.evaluate("getComputedStyle(document.body).color")
    assert "underline" in page.evaluate(f"{name}.textDecorationLine")


def test_no_third_of_a_wide_page_is_empty(screens):
    page, _ = screens
    stage, reader = box(page, ".stage"), box(page, "#ensembles")
    last = box(page, ".panel >> nth=-1")
    assert reader["right"] == pytest.approx(stage["right"], abs=8)
    assert 0 < reader["left"] - last["right"] < 60
    used = (min(reader["bottom"], stage["bottom"]) - stage["top"]) / (
        stage["bottom"] - stage["top"]
    )
    assert used > 0.6
    below = (stage["bottom"] - last["bottom"]) / (stage["bottom"] - stage["top"])
    assert below < 0.25
    page.mouse.wheel(0, 500)  # and it stays beside the charts that follow
    page.wait_for_function("scrollY > 100")
    assert box(page, "#ensembles")["bottom"] > 300


def test_tables_of_few_lines_leave_no_blank_below(screens):
    page, phone = screens
    for section in ("#certainty", "#gains"):
        blank = box(page, section)["bottom"] - box(page, f"{section} table")["bottom"]
        assert blank < 100
    assert phone.locator("#certainty caption").inner_text().endswith("± standard error")  # no room
    assert page.locator("#certainty caption").inner_text().endswith("with 95 % intervals")


COVERED = """section => {
    const area = section.getBoundingClientRect();
    const blocks = [...section.querySelectorAll("h2, p, caption, table, details")]
        .map(node => node.getBoundingClientRect());
    const near = 16; // what is between two blocks is no blank
    let all = 0, covered = 0;
    for (let x = area.left + 8; x < area.right; x += 16)
        for (let y = area.top + 24; y < area.bottom; y += 16) {
            all += 1;
            covered += blocks.some(b => x > b.left - near && x < b.right + near
                && y > b.top - near && y < b.bottom + near);
        }
    return [section.id, covered / all, Math.max(...blocks.map(b => b.right)) / area.right]; }"""


def check_sections(page: Any) -> None:
    """No third of what follows the figure is blank, and its right edge is in use."""
    found = [
        section.evaluate(COVERED)
        for section in page.locator("main > section, .pair > section").all()
    ]
    assert len(found) >= 4
    for name, covered, right in found:
        if name != "settings":  # which take what is left of a line
            assert covered > 2 / 3, found
        assert right > 0.95, found


def test_no_third_of_a_section_is_empty(screens):
    check_sections(screens[0])


@pytest.mark.parametrize("n_sets", [2, 12])
def test_no_third_of_a_section_of_one_split_is_empty(browser, tmp_path, n_sets):
    run = read_run(fill(tmp_path, some_rows(tuple(paper_names())[:n_sets], 1)))
    path = tmp_path / "page.html"
    path.write_text(render(run), encoding="utf-8")
    with pages_of(browser, path) as open_page:
        page = open_page(**DESKTOP)
        check_sections(page)
        lefts = {box(page, f".gains >> nth={i}")["left"] for i in range(2)}
        assert len(lefts) == 2  # side by side


def test_better_and_worse_are_told_apart(open_page, browser, tmp_path):
    def harmed(row: Row) -> Row:
        is_worse = row.dataset == "thyroid" and row.strategy in "CDE"
        return replace(row, valid_error=0.9) if is_worse else row

    run = read_run(fill(tmp_path, [harmed(row) for row in some_rows(("heart", "thyroid"), 8)]))
    path = tmp_path / "page.html"
    path.write_text(render(run), encoding="utf-8")
    script = """dot => { const style = getComputedStyle(dot);
        return [style.backgroundColor, style.borderRadius]; }"""
    with pages_of(browser, path) as open_other:
        page = open_other(**DESKTOP)
        assert "(heart)" in page.locator(".tiles").inner_text()
        dots = page.locator("#certainty .interval .dot")
        shown = [dot.evaluate(script) for dot in dots.all()]
        numbers = page.locator("#certainty td.strong.better, #certainty td.strong.worse")
        colours = numbers.evaluate_all("all => all.map(n => getComputedStyle(n).color)")
    assert colours == [colour for colour, _ in shown]  # phones show the numbers only
    neither = open_page(**DESKTOP).locator("#certainty .interval .dot").first.evaluate(script)
    assert len({neither[0], shown[0][0], shown[1][0]}) == 3  # by colour
    assert shown[0][1] != shown[1][1]  # and by form


def test_sizes_can_be_drawn_on_a_logarithmic_axis(open_page):
    page = open_page(**DESKTOP)
    axis = "document.querySelector('.chart')._fullLayout.xaxis"
    assert page.evaluate(f"{axis}.type") == "linear"
    page.select_option("#scale", "log")
    assert page.evaluate(f"{axis}.type") == "log"
    low, high = page.evaluate(f"{axis}.range")
    assert low < 0.1
    assert np.log10(12) < high < 2
    ticks = page.locator(".chart").first.locator(".xtick").all_text_contents()
    assert ticks == ["1", "2", "5", "10"]


def test_words_for_newcomers_are_explained(open_page):
    page = open_page(**DESKTOP)
    page.locator("summary", has_text="How to read").click()
    text = page.locator("#figure details").nth(1).inner_text()
    for word in (
        "learner",
        "column",
        "Risk",
        "A finds",
        "B with",
        "C finds",
        "D likewise",
        "E cho",
    ):
        assert word in text
    assert "weak classifiers" not in page.locator("body").inner_text()


def test_uncertainty_lies_under_the_points(screens):
    page, _ = screens
    traces = page.locator(".chart").first.evaluate(
        "c => c.data.map(t => [t.name, t.mode, t.error_y !== undefined])"
    )
    assert not any(has_whiskers for *_, has_whiskers in traces)
    shades = [index for index, (name, *_) in enumerate(traces) if name.endswith(" shade")]
    marks = [index for index, (_, mode, _) in enumerate(traces) if mode == "markers"]
    assert len(shades) == 2
    assert max(shades) < min(marks)


def test_long_ensembles_are_shown_in_part_first(screens):
    page, _ = screens
    page.select_option("#set", label="heart")
    last = page.locator("#kept option").last.get_attribute("value")
    page.select_option("#kept", value=last)
    lines = page.locator("#ensembles tbody tr")
    assert lines.count() == 20
    assert sum(line.is_visible() for line in lines.all()) == 12
    page.get_by_role("button", name="All 20 learners").click()
    assert all(line.is_visible() for line in lines.all())


def test_tapping_shows_a_label_on_a_phone(open_page):
    page = open_page(**PHONE)
    page.locator(".chart").nth(1).locator(".scatterlayer .point").last.tap(force=True)
    assert "error" in label(page)


def test_controls_have_names_and_tables_captions(open_page):
    page = open_page(**DESKTOP)
    unnamed = """() => [...document.querySelectorAll("input, select, .chart, .scroll")]
        .filter(node => !node.labels?.length && !node.getAttribute("aria-label")).length"""
    assert page.evaluate(unnamed) == 0
    tables = page.locator("table").count()
    assert tables >= 4
    assert page.locator("table > caption").count() == tables
    page.locator("summary", has_text="Single strategies").click()
    page.get_by_label("B UCG, stopped early").focus()
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_page_is_dark_on_dark_screens_and_light_on_paper(open_page):
    page = open_page(**DESKTOP, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(20, 24, 27)"
    colours = """() => { const chart = document.querySelector(".chart");
        return [chart.layout.font.color, chart.clientWidth, chart._fullLayout.width]; }"""
    before = page.evaluate(colours)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(colours)[0] == "#5a646e"
    assert page.evaluate(colours)[2] == 328
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(colours) == before
    assert page.pdf(format="A4").startswith(b"%PDF")
