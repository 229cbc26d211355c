"""The page of a frontier: what stands in it, and how a browser shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from browser import DESKTOP, PHONE, chromium, pages_of
from ensembles import mixed_ensemble

from totalqboost.cli.frontier_page import Found, render
from totalqboost.ensemble import Ensemble
from totalqboost.learners import Stump

HOSTILE = '</script><img src=x onerror=alert(1)> & "co" $data'
NAMES = ("age", HOSTILE, "size [cm]")
CHOSEN = 3


def point(size: int, **changes: Any) -> Any:
    """The ensemble of one size: all stumps on the features in turn."""
    learners = tuple(Stump(k % 3, k / 4, 1 if k % 2 else -1) for k in range(size))
    weights = tuple(1 / (k + 1) for k in range(size))
    fields = {
        "n_learners": size,
        "train_error": 0.4 / (1 + size),
        "valid_error": 0.05 + 0.4 / (1 + size),
        "valid_error_se": 0.012,
        "valid_log_loss": 0.2 + 0.5 / (1 + size),
        "valid_log_loss_se": 0.02,
        "valid_auc": 0.9,
        "valid_auc_se": 0.01,
        "penalty": np.nan if size == 0 else 0.01 / size,
        "l1_penalty": 0.02,
        "ensemble": Ensemble(learners, weights, -0.25, ("no", HOSTILE), NAMES, "logistic"),
    }
    return SimpleNamespace(**{**fields, **changes})


def some_found(**changes: Any) -> Found:
    sizes = (0, 1, 2, 3, 4, 5, 6, 8, 9, 12)  # some sizes are no better than smaller ones
    fields: dict[str, Any] = {
        "points": [point(size) for size in sizes],
        "train_log_loss": [0.7 / (1 + size) for size in sizes],
        "chosen": CHOSEN,
        "data": f"{HOSTILE}.csv",
        "target": HOSTILE,
        "n_rows": 150,
        "feature_names": NAMES,
        "deciles": tuple(tuple(np.linspace(0, 3, 11)) for _ in NAMES),
        "measured": "by 5-fold cross-validation",
        "rule": "the least error",
        "command": ("totalqboost", "frontier", "my data.csv", "--target", "y"),
    }
    return Found(**{**fields, **changes})


def content_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_page_holds_all_sizes_and_nothing_hostile():
    page = render(some_found())
    assert "<img" not in page
    assert "http" not in re.sub(r"http://www.w3.org/2000/svg", "", page)
    assert len(page) < 150_000
    sizes = content_of(page)["sizes"]
    assert [size["n"] for size in sizes] == [0, 1, 2, 3, 4, 5, 6, 8, 9, 12]
    assert [len(size["ensemble"]["learners"]) for size in sizes] == [size["n"] for size in sizes]
    assert sizes[CHOSEN]["error"] == pytest.approx(0.15)
    assert sizes[CHOSEN]["train_log_loss"] == pytest.approx(0.175)
    assert sizes[CHOSEN]["command"] == (
        "totalqboost frontier 'my data.csv' --target y --size 3 --model model.json"
    )
    assert sizes[0]["penalty"] is None
    for text in ("15.0 %", "± 1.2; training 10.0 %", "0.325", "5-fold cross-validation"):
        assert text in page
    row = '<tr class="best"><th scope="row" class="num">3</th><td class="num">10.0 %</td>'
    assert row in page


def test_page_without_other_rows_says_that_errors_are_the_trainings():
    unknown = dict.fromkeys(("valid_error", "valid_log_loss", "valid_auc"), np.nan)
    points = [point(size, **unknown) for size in range(4)]
    page = render(
        some_found(points=points, train_log_loss=[0.5] * 4, measured="", is_complete=False)
    )
    assert "on rows not seen it is higher" in page
    assert "rows not seen ±" not in page
    assert "</svg>training rows</li>" in page
    assert "The search was interrupted" in page
    assert content_of(page)["sizes"][2]["error"] is None


@pytest.mark.parametrize(
    ("classes", "shown"),
    [
        ((-1, 1), ["−1", "+1"]),
        ((0, 1), ["0", "1"]),
        ((1, 2), ["1", "2"]),
        ((False, True), ["False", "True"]),
    ],
)
def test_labels_are_those_of_the_data(classes, shown):
    points = [point(1, ensemble=Ensemble((Stump(0, 0.5),), (1.0,), 0.0, classes, NAMES))]
    page = render(some_found(points=points, train_log_loss=[0.5], chosen=0))
    assert content_of(page)["sizes"][0]["ensemble"]["classes"] == shown


# -- in a browser ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(render(some_found()), encoding="utf-8")
    return path


@pytest.fixture
def open_page(browser, page_file) -> Iterator[Any]:
    with pages_of(browser, page_file) as open_page:
        yield open_page


def shown(page: Any) -> tuple[str, int, str]:
    """The title of the ensemble, the rows of its table, and the size beside the slider."""
    title = page.locator("#ensemble-title").text_content()
    return title, page.locator(".learners tbody tr").count(), page.locator("#number").text_content()


def place(page: Any, chart: str, size: int) -> dict[str, float]:
    """Where to point in a chart for a size."""
    box = page.locator(chart).bounding_box()
    return {"x": 48 + (box["width"] - 62) * size / 12, "y": box["height"] / 3}


def test_the_chosen_size_is_marked_and_shown_first(open_page):
    page = open_page(**DESKTOP)
    assert shown(page) == ("3 weak classifiers, the chosen size", 3, "3")
    assert page.locator(".charts .chosen").count() == 2
    assert page.locator(".charts .band").count() == 2
    assert page.locator(".chart .dot").count() == 20
    assert "error 15.0 % ± 1.2" in page.locator("#reading").text_content()
    assert page.locator("#back").is_disabled()
    heads = page.locator(".learners thead th").all_text_contents()
    assert heads[:4] == ["Feature", f"Votes {HOSTILE} if", "Threshold", "Weight"]
    assert page.locator(".shapes figure").count() == 3


@pytest.mark.parametrize("chart", ["#error", "#loss"])
def test_pointing_shows_an_ensemble_and_a_click_keeps_it(open_page, chart):
    page = open_page(**DESKTOP)
    page.locator(chart).hover(position=place(page, chart, 8))
    assert shown(page) == ("8 weak classifiers", 8, "8")
    assert "9.4 % ± 1.2" in page.locator("#error .value").text_content()
    assert "0.256 ± 0.020" in page.locator("#loss .value").text_content()
    page.locator("h1").hover()
    assert shown(page)[2] == "3"  # back to what was chosen
    page.locator(chart).click(position=place(page, chart, 10.9))  # the nearest size is 12
    page.locator("h1").hover()
    assert shown(page) == ("12 weak classifiers", 12, "12")
    typed = page.locator("#take code").text_content()
    assert typed.strip().endswith("--size 12 --model model.json")
    page.get_by_role("button", name="Back to the chosen 3").click()
    assert shown(page)[2] == "3"
    assert page.evaluate("document.activeElement.id") == "size"  # a disabled button has no focus


def test_the_ensemble_is_beside_the_charts_on_a_wide_screen(open_page):
    page = open_page(**DESKTOP)
    charts, ensemble = (page.locator(s).bounding_box() for s in (".charts", "#ensemble"))
    assert ensemble["x"] > charts["x"] + charts["width"]
    assert page.locator(".learners table").bounding_box()["y"] < 900


def test_sizes_are_chosen_by_keys(open_page):
    page = open_page(**DESKTOP)
    page.locator("#error").focus()
    page.keyboard.press("ArrowRight")
    assert shown(page)[1:] == (4, "4")
    page.keyboard.press("End")
    assert shown(page)[1:] == (12, "12")
    page.keyboard.press("Home")
    assert shown(page)[2] == "0"
    assert (
        "No question is asked: the answer is always no." in page.locator(".learners").text_content()
    )
    page.get_by_label("Size", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert shown(page) == ("1 weak classifier", 1, "1")
    assert (
        page.locator("#size").get_attribute("aria-valuetext") == "1 weak classifier, error 25.0 %"
    )


def test_a_tap_shows_the_ensemble_on_a_phone(open_page):
    page = open_page(**PHONE)
    page.locator("#loss").tap(position=place(page, "#loss", 5))
    assert shown(page) == ("5 weak classifiers", 5, "5")


@pytest.mark.parametrize("options", [PHONE, DESKTOP, {"viewport": {"width": 800, "height": 900}}])
def test_page_never_scrolls_sideways(open_page, options):
    page = open_page(**options)
    page.locator("summary").click()
    page.locator("#size").fill("9")
    width = options["viewport"]["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    drawn = page.locator(".charts svg").evaluate_all("all => all.map(c => c.clientWidth)")
    assert max(drawn) <= width


def test_charts_follow_the_window(open_page):
    page = open_page(**DESKTOP)
    page.set_viewport_size({"width": 420, "height": 800})
    page.wait_for_function("document.querySelector('#error svg').clientWidth < 420")
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_page_is_dark_on_dark_screens(open_page):
    page = open_page(**DESKTOP, color_scheme="dark")
    style = "s => getComputedStyle(document.querySelector(s))"
    assert page.evaluate(f"({style})('body').backgroundColor") == "rgb(20, 24, 27)"
    assert page.evaluate(f"({style})('#error .line').stroke") == "rgb(116, 174, 240)"


def test_controls_have_names_and_tables_captions(open_page):
    page = open_page(**DESKTOP)
    unnamed = """() => [...document.querySelectorAll("input, button, .chart, [role=region]")]
        .filter(n => !n.labels?.length && !n.getAttribute("aria-label")
            && !n.getAttribute("aria-labelledby") && !n.textContent.trim()).length"""
    assert page.evaluate(unnamed) == 0
    assert page.locator("table > caption").count() == page.locator("table").count() == 2
    assert page.locator("#reading").get_attribute("aria-live") == "polite"


def test_ticks_of_equal_errors_differ(browser, tmp_path):
    points = [point(size, valid_error=0.003, train_error=0.003) for size in range(4)]
    points = [SimpleNamespace(**{**vars(p), "valid_error_se": 0.0}) for p in points]
    file = tmp_path / "page.html"
    file.write_text(render(some_found(points=points, train_log_loss=[0.5] * 4)), encoding="utf-8")
    with pages_of(browser, file) as open_page:
        ticks = open_page(**DESKTOP).locator("#error text[text-anchor=end]").all_text_contents()
    ticks = [tick for tick in ticks if tick.endswith(" %")]
    assert len(set(ticks)) == len(ticks) > 2


def test_long_names_wrap(browser, tmp_path):
    names = ("a" * 200, "b", "c")
    ensemble = Ensemble((Stump(0, 0.5),), (1.0,), 0.0, ("no", "yes"), names)
    found = some_found(points=[point(1, ensemble=ensemble)], train_log_loss=[0.5], chosen=0)
    file = tmp_path / "page.html"
    file.write_text(render(found), encoding="utf-8")
    with pages_of(browser, file) as open_page:
        box = open_page(**DESKTOP).locator(".learners")
        assert box.evaluate("node => node.scrollWidth - node.clientWidth") == 0


def test_without_scripts_the_table_is_what_is_shown(browser, page_file):
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    assert not page.locator("#sizes").is_visible()
    page.locator("summary").click()
    assert page.locator("#numbers table").is_visible()
    context.close()


def test_a_frontier_of_training_errors_only_is_drawn(browser, tmp_path):
    unknown = dict.fromkeys(("valid_error", "valid_log_loss", "valid_auc"), np.nan)
    points = [point(size, **unknown) for size in range(4)]
    found = some_found(points=points, train_log_loss=[0.5, 0.4, 0.3, 0.2], measured="")
    file = tmp_path / "page.html"
    file.write_text(render(replace(found, chosen=1)), encoding="utf-8")
    with pages_of(browser, file) as open_page:
        page = open_page(**DESKTOP)
        assert page.locator(".chart .dot").count() == 8
        assert page.locator(".band").count() == 0
        assert "training error 20.0 %" in page.locator("#reading").text_content()


# -- gaps, categories, many classes ---------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 14])
def test_all_kinds_are_shown(browser, tmp_path, n_classes):
    model = mixed_ensemble(1, n_classes)
    points = [
        point(k, ensemble=replace(model, learners=model.learners[:k], weights=model.weights[:k]))
        for k in range(15)
    ]
    deciles = tuple(tuple(np.linspace(0, 3, 11)) for _ in model.features)
    names = model.feature_names
    found = some_found(
        points=points, train_log_loss=[0.5] * 15, chosen=14, feature_names=names, deciles=deciles
    )
    path = tmp_path / "page.html"
    path.write_text(render(found), encoding="utf-8")
    with pages_of(browser, path) as open_page:
        page = open_page(**DESKTOP)
        is_two = n_classes == 2
        assert shown(page)[:2] == (
            "14 weak classifiers, the chosen size",
            14 if is_two else 15,  # the intercepts have a row
        )
        text = page.locator(".learners").text_content()
        assert "or missing" in text
        assert "in {" in text
        heads = page.locator(".learners thead th").all_text_contents()
        assert heads[2:] == (["Threshold", "Weight", ""] if is_two else list(model.classes))
        figures = page.locator(".shapes figure")
        assert figures.count() == len(model.used_features)
        of_age = page.locator(".shapes figure", has_text="age")
        assert of_age.locator("path.step").count() == (1 if is_two else n_classes)
        assert of_age.locator("circle.gap").count() == (1 if is_two else n_classes)
        of_city = page.locator(".shapes figure", has_text="city")
        assert of_city.locator("rect.level").count() == 5 * (1 if is_two else n_classes)
        assert "Zug" in of_city.locator("svg").get_attribute("aria-label")
        page.locator("#size").fill("0")
        assert "the answer is always" in page.locator(".learners").text_content()
