"""Scorecards: points that add up to the labels of the model, and pages that show them."""

from __future__ import annotations

import builtins
import math
import re
from decimal import Context, Decimal
from html.parser import HTMLParser

import numpy as np
import pytest
from browser import chromium
from ensembles import mixed_ensemble, mixed_frame
from export_inputs import NASTY, ensembles, numbers_of, tricky_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from totalqboost import Ensemble, Stump, export
from totalqboost.export.model import sum_of
from totalqboost.export.scorecard import card_of, cut_words
from totalqboost.learners import Both, CategorySet, Feature, Missing

FEATURES = ("age", "height")
finite = st.floats(-1e290, 1e290).filter(lambda t: abs(t) > 1e-280)
STUMPS = (Stump(0, 40.0), Stump(1, 1.8, -1), Stump(0, 60.0))


def of_points(weights=(0.75, 0.5, 0.25), intercept=-0.5, scale=0.25, loss="logistic"):
    return Ensemble(STUMPS, weights, intercept, ("no", "yes"), FEATURES, loss, scale)


@settings(max_examples=80, deadline=None)
@given(ensembles().filter(lambda model: model.scale is not None))
def test_integer_weights_are_the_points(model):
    card = card_of(model)
    X = tricky_rows(model, 300)
    np.testing.assert_array_equal(card.numbers(X), numbers_of(model, X))
    assert card.notes[0] == "Points are the integer weights of the model, none is rounded."
    assert all(points >= 0 for rule in card.rules for points in rule.points)


def test_labels_are_those_of_the_library():
    rng = np.random.default_rng(0)
    stumps = [Stump(int(rng.integers(3)), float(t), int(rng.choice([-1, 1]))) for t in range(20)]
    weights = (rng.integers(1, 256, 20) * 0.01).tolist()
    model = Ensemble(stumps, weights, 0.37, (0, 1), ("a", "b", "c"), "logistic", 0.01)
    X = tricky_rows(model, 100_000)
    np.testing.assert_array_equal(card_of(model).numbers(X), numbers_of(model, X))


def test_risks_are_probabilities_of_the_model():
    model, card = of_points(), card_of(of_points())
    X = np.array([[30.0, 1.9], [30.0, 1.7], [50.0, 1.9], [50.0, 1.7], [70.0, 1.9], [70.0, 1.7]])
    totals = [0, 2, 3, 5, 4, 6]
    levels = {level.low: level for level in card.levels()}
    for total, risk in zip(totals, model.predict_proba(X)[:, 1], strict=True):
        assert levels[total].risks == pytest.approx((risk, risk), abs=1e-12)
        assert levels[total].answer == ("yes" if risk > 0.5 else "no")
    assert card.cutoff == 5
    assert card.highest == 6


@pytest.mark.parametrize("seed", range(6))
def test_the_card_of_rounded_points_is_that_of_rounded_weights(seed):
    model = mixed_ensemble(seed)
    card = card_of(model, points=7)
    assert 3 <= max(rule.points[0] for rule in card.rules) <= 7
    learners = [rule.condition for rule in card.rules]
    weights = [card.unit * rule.points[0] / 2 for rule in card.rules]
    intercept = sum_of(export.exportable(model)).intercept[0]
    other = Ensemble(learners, weights, intercept, (0, 1), model.features)
    assert card.origin == pytest.approx(intercept - sum(weights))  # the score of no rule
    X = tricky_rows(model, 5000)
    np.testing.assert_array_equal(card.numbers(X), numbers_of(other, X))


def test_the_card_says_how_often_it_differs():
    model, frame = mixed_ensemble(3), mixed_frame(0, 400)
    text = export.to_scorecard(model, points=2, rows=frame)
    found = re.search(r"On 400 rows the card gives another label than the model for (\d+) ", text)
    card = card_of(model, points=2, rows=frame)
    X = model.checked_rows(frame)
    assert int(found[1]) == (card.numbers(X) != numbers_of(model, X)).sum() > 0
    assert "Points are rounded to whole numbers" in text
    assert "was not measured" in export.to_scorecard(model, points=2)
    fine = export.to_scorecard(model, points=1000, rows=frame)
    assert "On 400 rows the card and the model give the same labels." in fine


def test_rows_help_to_choose_the_points():
    frame = mixed_frame(0, 400)
    better = 0
    for seed in range(8):
        model = mixed_ensemble(seed)
        X = model.checked_rows(frame)
        own = numbers_of(model, X)
        blind = (card_of(model, points=8).numbers(X) != own).sum()
        seen = (card_of(model, points=8, rows=frame).numbers(X) != own).sum()
        assert seen <= blind
        better += seen < blind
    assert better


def test_small_weights_are_left_out_and_told():
    model = Ensemble(STUMPS, (1.0, 0.9, 0.001), 0.0, ("no", "yes"), FEATURES)
    card = card_of(model)
    assert [rule.text for rule in card.rules] == ["age > 40", "height ≤ 1.8"]
    assert "1 rule of less than half a point left out" in card.notes[0]


def test_equal_rules_are_one():
    model = Ensemble((Stump(0, 1.0), Stump(0, 1.0)), (0.5, 0.25), 0.0, scale=0.25)
    assert [(rule.text, rule.points) for rule in card_of(model).rules] == [("x0 > 1", (1,))]
    against = Ensemble((Stump(0, 1.0), Stump(0, 1.0, -1)), (0.5, 0.5), -1.0, scale=0.25)
    assert card_of(against).rules == ()
    assert "Every total means -1." in export.to_scorecard(against)


@pytest.mark.parametrize(("intercept", "sentence"), [(5.0, "yes"), (-5.0, "no")])
def test_a_card_of_one_answer_says_so(intercept, sentence):
    assert f"Every total means {sentence}." in export.to_scorecard(of_points(intercept=intercept))


def test_many_totals_share_lines():
    rng = np.random.default_rng(0)
    stumps = [Stump(0, float(t)) for t in range(30)]
    weights = (rng.integers(1, 16, 30) * 0.05).tolist()
    card = card_of(Ensemble(stumps, weights, 0.0, (0, 1), ("a",), "logistic", 0.05))
    levels = card.levels()
    assert len(levels) <= 20
    assert [level.low for level in levels[1:]] == [level.high + 1 for level in levels[:-1]]
    assert (levels[0].low, levels[-1].high) == (0, card.highest)
    assert card.cutoff in [level.low for level in levels]


def test_an_unknown_loss_has_no_risks():
    text = export.to_scorecard(of_points(loss="squareplus"))
    assert "Risk" not in text
    assert "| 5 | yes |" in text


def test_rules_have_words():
    city = Feature("city", ("Bern", "Basel", None))
    features = (Feature("age", has_missing=True), city)
    both = Both.of(Stump(0, 40.0, -1, True), CategorySet(1, (0, 2)), -1)
    rules = [
        (Stump(0, 40.0, 1, True), "age > 40 or missing"),
        (Stump(0, 40.0, -1, True), "age ≤ 40"),
        (Stump(0, 40.0, -1), "age ≤ 40 or missing"),
        (Missing(0), "age is missing"),
        (Missing(0, -1), "age is known"),
        (CategorySet(1, (1,)), "city is Basel"),
        (CategorySet(1, (1,), -1), "city is not Basel"),
        (CategorySet(1, (0, 2)), "city is one of Bern, missing"),
        (CategorySet(1, (0, 1), -1), "city is none of Bern, Basel"),
        (both, "not both: age ≤ 40 and city is one of Bern, missing"),
    ]
    for learner, text in rules:
        card = card_of(Ensemble((learner,), (1.0,), features=features))
        assert [rule.text for rule in card.rules] == [text]


def test_thresholds_can_be_told_apart():
    cuts = [1234567.5, 1234571.5, 1.0, math.nextafter(1.0, 2.0), 2.5e-9, 1e300, 0.0]
    words = cut_words([Stump(0, cut) for cut in cuts])
    found = [words[0, cut][0] for cut in cuts]
    exact = ["> 1.0", "> 1.0000000000000002"]
    assert found == ["> 1234567.5", "> 1234571.5", *exact, "> 2.5e-9", "> 1e+300", "> 0"]
    assert words[0, 2.5e-9][1] == "≤ 2.5e-9"


@settings(max_examples=300, deadline=None)
@given(finite, st.integers(-3, 3))
def test_readings_are_on_the_side_of_the_model(threshold, steps):
    above, below = cut_words([Stump(0, threshold)])[0, threshold]
    sign, shown = above.split()
    assert (sign, below) in ((">", f"≤ {shown}"), ("≥", f"< {shown}"))
    near = Context(prec=15).create_decimal_from_float(threshold)
    for _ in range(abs(steps)):
        near = near.next_plus(Context(prec=15)) if steps > 0 else near.next_minus(Context(prec=15))
    is_above = near > Decimal(shown) if sign == ">" else near >= Decimal(shown)
    assert is_above == (float(near) > threshold)


def test_the_words_are_the_shorter_ones():
    assert cut_words([Stump(0, 2.4500000000000002)])[0, 2.4500000000000002][0] == "> 2.45"
    assert cut_words([Stump(0, 0.049229999999999996)])[0, 0.049229999999999996][0] == "≥ 0.04923"


def test_a_card_lists_all_categories():
    wards = tuple(f"w{i}" for i in range(20))
    model = Ensemble((CategorySet(0, range(12)),), (1.0,), features=(Feature("ward", wards),))
    assert f"ward is one of {', '.join(wards[:12])} |" in export.to_scorecard(model)


def test_markdown_escapes_once():
    text = export.to_scorecard(of_points(), title="<b> &lt; &#60; a & b < c")
    assert text.splitlines()[0] == r"# &lt;b> &amp;lt; &amp;\#60; a & b < c"


def test_three_classes_have_a_column_each():
    model = mixed_ensemble(0, 3, 10)
    text = export.to_scorecard(model, rows=mixed_frame(0, 100))
    assert "|   | If | a | b | c |" in text
    assert "|  | Always |" in text
    assert "multiplies the odds by" in text
    assert "The highest total is the answer" in text


TABLE = ("table", "thead", "tbody", "tr", "th", "td")


class Page(HTMLParser):
    """The texts of a page, and its tags."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


def nasty_model(name, n_classes=2):
    features = (Feature(name), Feature("b", NASTY))
    learners = (Stump(0, 1.0), CategorySet(1, (3, 4)))
    classes = NASTY[2 : 2 + n_classes]
    if n_classes == 2:
        return Ensemble(learners, (1.0, 0.5), 0.0, classes, features, "logistic")
    weights = [tuple(range(n_classes)), tuple(range(n_classes, 0, -1))]
    return Ensemble(learners, weights, 0.0, classes, features, "multinomial")


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", [*NASTY, "$x^2$", "&lt;", "a" * 200])
def test_text_stays_text(name, n_classes):
    model = nasty_model(name, n_classes)
    page = Page(export.to_scorecard(model, "html", title=name or None))
    assert set(page.tags) <= {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "p",
        "div",
        *TABLE,
    }
    shown = name.encode("unicode_escape").decode() if "\n" in name or "\t" in name else name
    assert f"{shown} > 1" in page.texts
    lines = export.to_scorecard(model, title=name or None).splitlines()
    assert not any(re.match(r"\s*<\w|```", line) for line in lines)
    table = [line for line in lines if line.startswith("| ☐")]
    n_columns = 2 + (n_classes if n_classes > 2 else 1)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {n_columns + 1}
    assert "<script>" not in "\n".join(lines)


@pytest.mark.parametrize("name", ["two\nlines", "größe ☃", "$x^2$", "word " * 60])
def test_pictures_take_any_text(name):
    picture = export.to_scorecard(nasty_model(name, 5), "png", title=name)
    assert picture.startswith(b"\x89PNG")


def test_the_page_fits_a_phone_and_asks_for_nothing(tmp_path):
    file = tmp_path / "card.html"
    file.write_text(export.to_scorecard(mixed_ensemble(0, 3), "html"), encoding="utf-8")
    requests = []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.locator("tbody tr").count() > 5
    assert requests == [file.as_uri()]


def test_a_picture_is_the_same_every_time():
    model = of_points()
    assert export.to_scorecard(model, "png") == export.to_scorecard(model, "png")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"format": "pdf"}, "format must be one of markdown, html, png, got 'pdf'"),
        ({"points": 0}, "points must be None or from 1 to 1000, got 0"),
        ({"points": True}, "points must be None or from 1 to 1000, got True"),
        ({"rows": [[1.0]]}, "rows must have 2 columns"),
    ],
)
def test_wrong_use_is_one_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        export.to_scorecard(of_points(), **options)


def test_a_missing_package_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r'pip install "totalqboost\[export\]"'):
        export.to_scorecard(of_points(), "png")
    assert export.to_scorecard(of_points())
