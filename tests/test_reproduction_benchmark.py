"""The numbers of docs/reproduction.md: who is compared with whom, and what may be looked at."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from totalqboost.experiments.bench import Bench
from totalqboost.experiments.folder import read_run
from totalqboost.experiments.frontiers import paper_points
from totalqboost.experiments.rows import Row, RunError
from totalqboost.experiments.settings import Settings

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import agreement
import nested_choice
import reproduction
import reproduction_report
import reproduction_values as values
import table

SMALL = Settings(max_rounds=6, n_penalties=3)


def row(strategy, n_learners, *, split=0, dataset="splice", **measured):
    content = {
        "penalty": None if strategy in ("adaboost", "elimination", "random") else 0.1,
        "round": n_learners,
        "risk": 0.5,
        "objective": 0.5,
        "bound": None,
        "train_error": 0.2,
        "valid_error": 0.3,
        "n_train": 800,
        "n_valid": 200,
        "seconds": 0.5,
    }
    content |= measured
    return Row(dataset=dataset, split=split, strategy=strategy, n_learners=n_learners, **content)


def errors(entry, method):
    return [size["mean"] for size in entry[method]]


# -- baselines --------------------------------------------------------------------------------


def erlpboost_rows():
    """More learners: a better soft margin and a lower error, at a higher exponential risk."""
    return [
        row("erlpboost", 4, objective=-0.1, risk=0.5, valid_error=0.15),
        row("erlpboost", 9, objective=-0.2, risk=0.6, valid_error=0.09),
        row("erlpboost", 15, objective=-0.3, risk=0.7, valid_error=0.06),
        row("erlpboost", 39, objective=-0.4, risk=0.8, valid_error=0.05),
    ]


def test_a_baseline_is_judged_by_what_it_minimises():
    (entry,) = values.errors_at_sizes(erlpboost_rows())
    assert errors(entry, "erlpboost") == [0.15, 0.09, 0.06, 0.05]


def test_a_to_e_and_subsets_are_judged_by_their_risk():
    for strategy, method in (("E", "cp"), ("elimination", "elimination"), ("A", "convex")):
        rows = [
            row(strategy, 3, risk=0.4, objective=0.9, valid_error=0.2),
            row(strategy, 5, risk=0.5, objective=0.1, valid_error=0.1),
        ]
        (entry,) = values.errors_at_sizes(rows)
        assert errors(entry, method) == [0.2] * 4
        assert entry[method][0]["learners"] == 3


def test_soft_margins_are_not_mixed_and_the_better_one_stands_for_the_method():
    bad = [row("lpboost", 4, penalty=0.5, objective=-9.0, valid_error=0.4)]
    good = [row("lpboost", 4, penalty=0.1, objective=-0.1, valid_error=0.2)]
    (entry,) = values.errors_at_sizes(bad + good)
    assert errors(entry, "lpboost") == [0.2] * 4


def test_methods_are_compared_on_the_same_splits():
    rows = [row("B", 4, split=s, valid_error=e) for s, e in ((0, 0.2), (1, 0.4))]
    (entry,) = values.errors_at_sizes([*rows, row("adaboost", 4)])
    assert errors(entry, "convex") == [0.2] * 4
    assert entry["convex"][0]["n_splits"] == 1


def test_standard_errors_are_corrected_for_overlapping_splits():
    rows = [row("B", 4, split=s, valid_error=e) for s, e in enumerate((0.1, 0.2, 0.3))]
    (entry,) = values.errors_at_sizes(rows)
    assert entry["convex"][0]["standard_error"] == pytest.approx(0.1 * (1 / 3 + 0.25) ** 0.5)


def test_kept_rows_say_what_all_rows_say():
    rng = np.random.default_rng(0)
    rows = [
        row(strategy, n, penalty=penalty, objective=-rng.random(), valid_error=rng.random())
        for strategy in ("adaboost", "lpboost", "erlpboost")
        for penalty in ((None,) if strategy == "adaboost" else (0.1, 0.3))
        for n in range(1, 60)
    ]
    rows += [row(s, n, risk=1 / n) for s in ("random", "elimination", "B") for n in range(1, 60)]
    kept = reproduction.needed(rows)
    assert len(kept) < len(rows)
    assert values.errors_at_sizes(kept) == values.errors_at_sizes(rows)
    assert values.one_margin(kept) == values.one_margin(rows)


def test_one_soft_margin_for_all_data_sets_is_not_chosen_per_data_set():
    rows = [
        row("lpboost", 4, penalty=penalty, dataset=dataset, valid_error=error)
        for dataset, errors in (("splice", (0.1, 0.3)), ("image", (0.4, 0.2)))
        for penalty, error in zip((0.1, 0.5), errors, strict=True)
    ]
    found = values.one_margin(rows)
    means = {one["margin"]: one["means"][-1] for one in found["lpboost"]}
    assert means == pytest.approx({0.1: 0.25, 0.5: 0.25})
    chosen = [errors(entry, "lpboost")[-1] for entry in values.errors_at_sizes(rows)]
    assert sorted(chosen) == [0.1, 0.2]
    text = reproduction_report._one_margin(found)
    assert "(0.1 / 0.5), at most 20 learners: LPBoost 25.0 / 25.0 %" in text


def test_differences_of_all_sizes_and_methods_are_corrected_together():
    def entry(i, shift):
        return {
            name: [{"mean": 0.2 + i / 100 + (shift + i / 1e4 if name == "convex" else 0.0)}] * 4
            for name in ("cp", "convex")
        }

    said = [
        reproduction_report._against_all([entry(i, shift) for i in range(6)], ("cp", "convex"))
        for shift in (0.1, 0.0)
    ]
    assert "4 tests (methods and sizes): A, B at 5, A, B at 10" in said[0]
    assert "none" in said[1]  # p = 0.01 each


# -- tables -----------------------------------------------------------------------------------


def test_the_load_before_a_timed_run_is_not_that_before_the_twenty_splits(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduction, "RESULTS", tmp_path)
    path = tmp_path / "reproduction.json"
    times = {"wall": 9.0, "computing": 18.0, "splits": 1, "ensembles": 3}
    content = {
        "configuration": {"load_before": 0.1},
        "results": {"times": {"local": times}, "seconds": {}},
    }
    path.write_text(json.dumps(content))
    found = {"times": times | {"wall": 7.0}, "rows": []}
    reproduction.time_again("local", found, 75, 1.7)
    content = json.loads(path.read_text())
    assert content["configuration"]["load_before"] == 0.1
    assert content["results"]["times"]["local"] == times | {"wall": 7.0, "load_before": 1.7}
    text = reproduction_report.render(content, "times")
    assert "7 s" in text
    assert "Load average before the run: local 1.7." in text


def test_data_sets_that_are_run_again_replace_their_rows_and_no_others(tmp_path, monkeypatch):
    for name in ("KEPT", "RESULTS", "FIGURE"):
        monkeypatch.setattr(reproduction, name, tmp_path / name.lower())
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "reproduction.json").write_text(
        '{"results": {"seconds": {}}, "configuration": {}}'
    )
    monkeypatch.setattr(reproduction, "FIGURE", tmp_path / "figure.png")
    kept = [row("B", 3, dataset=name, split=s) for name in ("thyroid", "heart") for s in range(2)]
    (tmp_path / "config.json").write_text(json.dumps({"settings": asdict(SMALL)}))
    reproduction.keep(tmp_path / "config.json", [*kept, row("random", 3, dataset="thyroid")])
    arguments = Namespace(
        again=["thyroid"], strategies=["B", "elimination"], splits=2, folder=tmp_path / "runs"
    )
    common = {"settings": SMALL, "jobs": 1, "workers": None, "scheduler": None}
    content = reproduction.measure_again(Namespace(**vars(arguments), **common))
    found = {(r.dataset, r.strategy, r.split): r for r in read_run(tmp_path / "kept").rows}
    assert found["heart", "B", 1].risk == 0.5
    assert found["thyroid", "random", 0].risk == 0.5
    assert {found["thyroid", name, 1].n_train for name in ("B", "elimination")} == {
        len(Bench("thyroid", 1, SMALL).y)
    }
    assert content["results"]["n_splits"] == {"B": 2, "elimination": 2, "random": 1}
    assert (tmp_path / "figure.png").exists()


def test_how_far_one_data_set_must_lie_is_what_the_test_finds():
    rng = np.random.default_rng(1)
    shift, n, n_splits, found = agreement._detectable_one(12, 20), 12, 20, 0
    for _ in range(400):
        t = rng.normal(size=n) / np.sqrt(rng.chisquare(n_splits - 1, n) / (n_splits - 1))
        t[0] = (rng.normal() + shift) / np.sqrt(rng.chisquare(n_splits - 1) / (n_splits - 1))
        scores = stats.norm.isf(stats.t.sf(np.abs(t), n_splits - 1))
        found += stats.chi2.sf(np.square(scores).sum(), n) <= 0.05
    assert 0.7 < found / 400 < 0.9


def test_few_learners_are_told_beside_their_error():
    size = {"mean": 0.2, "standard_error": 0.01, "learners": 7.4, "n_splits": 20}
    assert reproduction_report._cell(size, 10) == "20.0 ± 1.0 (7.4)"
    assert reproduction_report._cell({**size, "learners": 7.6}, 10) == "20.0 ± 1.0"


def test_every_part_of_the_page_is_made_of_rows_alone():
    rng = np.random.default_rng(0)
    rows = [
        row(strategy, n, split=split, risk=1 / n, valid_error=rng.random(), dataset=dataset)
        for strategy in ("A", "B", "C", "D", "E", "D0", *reproduction.BASELINES)
        for split in range(3)
        for dataset in ("splice", "image")
        for n in (6, 8, 12)
    ]
    times = {"wall": 59.0, "computing": 100.0}
    results = {"times": {"local": times}, "tabu_success": [], "seconds": values.seconds_of(rows)}
    results |= values.values_of(rows, 75)
    for part in reproduction_report.PARTS:
        text = reproduction_report.render({"results": results, "configuration": {}}, part)
        assert text
        assert "nan" not in text
    success = reproduction_report.render({"results": results}, "success")
    assert "D0 against E, empirical risk" in success
    assert success.count("23.81 %") == 2
    effort = reproduction_report.render({"results": results}, "effort")
    for pair in ("D − E", "D0 − E", "C − E", "elimination − E", "random − E"):
        assert pair in effort


def test_splits_of_d0_do_not_limit_those_of_the_baselines():
    rows = [row(strategy, 6, split=split) for strategy in "BE" for split in range(3)]
    (entry,) = values.errors_at_sizes([*rows, row("D0", 6)])
    assert entry["cp"][1]["n_splits"] == 3


def test_so_few_splits_that_they_prove_nothing_claim_nothing():
    def effort_of(n_splits):
        rng = np.random.default_rng(0)
        rows = [
            row(strategy, 6, split=split, valid_error=rng.random())
            for strategy in "DE"
            for split in range(n_splits)
        ]
        return reproduction_report.render({"results": values.values_of(rows, 75)}, "effort")

    assert "so few splits prove nothing" in effort_of(5)
    assert "would have been found" in effort_of(20)


def test_what_has_not_been_run_is_said():
    content = {"results": values.values_of([row("B", 6), row("E", 6)], 75), "configuration": {}}
    text = reproduction_report.render(content, "rows")
    assert "Not run yet: A, C, D, adaboost" in text
    assert "older run" not in text
    content["configuration"]["is_older"] = True
    assert "older run" in reproduction_report.render(content, "rows")


def test_rows_of_other_settings_are_older_rows():
    settings = asdict(Settings())
    assert not reproduction.is_older({"settings": settings})
    assert reproduction.is_older({"settings": {**settings, "tol": 0.1}})
    settings.popitem()  # one that has come since
    assert reproduction.is_older({"settings": settings})
    assert reproduction.is_older({})


def test_a_page_can_have_parts_of_a_benchmark(tmp_path, monkeypatch):
    (tmp_path / "made_up.json").write_text('{"results": 7}', encoding="utf-8")
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    module = type(sys)("made_up")
    module.render = lambda content, part: f"{part}: {content['results']}"
    monkeypatch.setitem(sys.modules, "made_up", module)
    old = "<!-- benchmark: made_up left -->\nold\n<!-- end -->"
    (match,) = table.SECTION.finditer(f"before\n{old}\nafter")
    new = table.section(match[1], match[2].strip())
    assert new == "<!-- benchmark: made_up left -->\n\nleft: 7\n\n<!-- end -->"


def test_tables_are_written_without_the_packages_that_were_measured(monkeypatch):
    for name in ("dwave", "dwave.samplers"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "samplers", raising=False)
    assert "simulated annealing" in table.section("samplers")


def test_long_tables_are_folded_but_for_those_that_a_page_is_about(tmp_path, monkeypatch):
    (tmp_path / "reproduction.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    module = type(sys)("reproduction")
    module.render = lambda content, part: "| a |\n| - |\n" + "| 1 |\n" * 12
    monkeypatch.setitem(sys.modules, "reproduction", module)
    is_folded = {
        part: "<details>" in table.section("reproduction", part)
        for part in ("gains", "generalization", "effort")
    }
    assert is_folded == {"gains": False, "generalization": False, "effort": True}


# -- nested choice ----------------------------------------------------------------------------


def test_the_place_of_least_inner_error_is_chosen_and_the_smaller_one_at_ties():
    paths = [[(1, 9), (2, 5), (3, 5)], [(1, 9), (2, 4), (3, 4)]]
    assert nested_choice.chosen(paths) == 1
    assert nested_choice.chosen([[(0, 9), (7, 5)], [(0, 9), (4, 3), (5, 1)]]) == 2  # 7 stays 7


def test_inner_folds_hold_enough_rows_and_share_none():
    small, large = (list(nested_choice.inner_folds(n, 0)) for n in (200, 6000))
    assert (len(small), len(large)) == (5, 1)
    assert np.sum(small, axis=0).tolist() == [1] * 200
    assert large[0].sum() == 1200


@pytest.mark.parametrize("form", nested_choice.FORMS)
def test_an_inner_bench_has_training_rows_only_and_the_prices_of_the_whole(form):
    bench = nested_choice.make_bench(form, "thyroid", 0, SMALL)
    held_out = next(nested_choice.inner_folds(len(bench.y), 0))
    n_plain = len(bench.plain.trace)
    part = nested_choice.part_of(form, bench, held_out)
    assert part.lambdas is bench.lambdas
    np.testing.assert_array_equal(part.X_valid, bench.X[held_out])
    assert len(part.y) + len(part.y_valid) == len(bench.y)
    assert part.plain is not bench.plain
    assert len(part.plain.problem.sample_weight) == len(part.y)
    assert len(bench.plain.trace) == n_plain
    nu = 1e-6 if form == "exponential" else 4 / len(part.y)
    assert part.settings.nu == pytest.approx(nu)
    assert part.settings.fit_intercept is (form == "logistic")


def test_the_validation_rows_have_no_say_in_the_choice(monkeypatch):
    before = nested_choice.record_of("exponential", "thyroid", 0, SMALL)

    class Flipped(Bench):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.y_valid = -self.y_valid

    monkeypatch.setattr(nested_choice, "Bench", Flipped)
    after = nested_choice.record_of("exponential", "thyroid", 0, SMALL)
    for who in ("zero", "priced"):
        assert after[who]["learners"] == before[who]["learners"]
        assert after[who]["wrong"] == before["n_valid"] - before[who]["wrong"]


def test_a_nested_choice_whose_lock_is_deleted_ends(tmp_path, monkeypatch):
    folder = tmp_path / "run"

    def as_done(work, tasks, arguments):
        for form, dataset, split in tasks:
            yield {"form": form, "dataset": dataset, "split": split}
            (folder / ".lock").unlink()

    monkeypatch.setattr(nested_choice, "as_done", as_done)
    given = {"folder": folder, "settings": SMALL, "again": True, "out": tmp_path, "splits": 1}
    arguments = Namespace(**given, datasets=["thyroid"])
    with pytest.raises(RunError, match="lock was deleted"):
        nested_choice.run(arguments)
    assert len(nested_choice.read_records(folder)) == 1


def test_a_run_in_a_new_folder_begins_with_what_was_kept_of_the_same_settings(tmp_path):
    records = [{"form": "logistic", "dataset": "heart", "split": 0}]
    content = {
        "configuration": {"settings": asdict(SMALL)},
        "results": {"records": records},
    }
    path = tmp_path / "nested_choice.json"
    assert nested_choice.kept_records(path, SMALL) == []
    path.write_text(json.dumps(content), encoding="utf-8")
    assert nested_choice.kept_records(path, SMALL) == records
    assert nested_choice.kept_records(path, Settings()) == []


def test_splits_that_some_data_set_lacks_are_not_counted():
    records = [
        {"form": form, "dataset": dataset, "split": split}
        for split, datasets in enumerate((("heart", "thyroid"), ("heart",)))
        for dataset in datasets
        for form in nested_choice.FORMS
    ]
    assert nested_choice.of_whole_splits(records, ("heart", "thyroid")) == records[:4]


def test_a_summary_pairs_the_splits():
    records = [
        {
            "form": "exponential",
            "dataset": "heart",
            "split": split,
            "n_train": 80,
            "n_valid": 20,
            "zero": {"learners": 9, "wrong": 4 + split},
            "priced": {"learners": 5, "wrong": 3 + split},
            "seconds": 1.0,
        }
        for split in range(8)
    ]
    (entry,) = nested_choice.summary(records, "exponential")
    assert entry["difference"]["mean"] == pytest.approx(-0.05)
    assert entry["difference"]["p"] == 2.0**-7  # all eight splits agree
    text = nested_choice.render({"results": {"exponential": [entry]}}, "exponential")
    assert "heart (-5.00)" in text


def test_kept_records_are_counted_again_with_the_default_beside_no_price(tmp_path):
    records = [
        {
            "form": form,
            "dataset": "heart",
            "split": split,
            "n_train": 80,
            "n_valid": 20,
            "zero": {"learners": 9, "wrong": 4},
            "priced": {"learners": 5, "wrong": 4},
            "default": {"learners": 7, "wrong": 5},
            "seconds": 1.0,
        }
        for split in range(8)
        for form in nested_choice.FORMS
    ]
    path = tmp_path / "nested_choice.json"
    path.write_text(json.dumps({"machine": "old", "results": {"records": records}}))
    content = nested_choice.report(path)
    kept = json.loads(path.read_text())
    assert (kept["machine"], kept["results"]["records"]) == ("old", content["results"]["records"])
    text = nested_choice.render(content, "logistic")
    assert "Default λ minus λ = 0: +5.00 points, with 7.0 learners instead of 9.0" in text
    assert "real after a correction for 1 data sets: heart" in text


def test_gains_are_counted_where_both_groups_have_the_size_too():
    """B alone has the size of its lowest error: a reversed gain, but none at common sizes."""
    errors = {("B", 5): 0.2, ("B", 6): 0.1, ("E", 5): 0.15}
    rows = [row(who, n, valid_error=error) for (who, n), error in errors.items()]
    found = values.gain_counts(rows)
    assert (found["all"]["generalization"], found["all, reversed"]["generalization"]) == (0, 1)
    common = [found[name]["generalization"] for name in ("common", "common, reversed")]
    assert common == [1, 0]
    assert found["common"]["splits"] == 1


def test_gains_of_a_hundred_percent_are_told_with_their_rows():
    rows = [row("B", 5, split=s, n_valid=40 + s) for s in range(3)]
    rows += [row("E", 5, split=s, valid_error=0.1 * s, n_valid=40 + s) for s in range(3)]
    (found,) = values.gains(rows)
    assert found["perfect"] == [40]
    text = reproduction_report._perfect([found])
    assert "1 of the 3 generalization gains are 100 %" in text
    assert "on 40 validation rows" in text


def test_splits_without_a_common_size_are_told():
    rows = [row(who, 5, split=s) for who in "CE" for s in range(7)]
    rows += [row("C", 5, split=7), row("E", 6, split=7)]
    text = reproduction_report.render({"results": values.values_of(rows, 75)}, "effort")
    assert "without 1 of 8 splits of splice" in text


def test_the_data_set_that_has_most_of_a_difference_is_found():
    rows = [row(who, 5, dataset=name) for who in "BE" for name in ("splice", "image", "heart")]
    rows = [r for r in rows if (r.strategy, r.dataset) != ("E", "image")]
    rows.append(row("E", 5, dataset="image", train_error=0.05))
    entry = next(e for e in values.success(rows, 75) if "largest" in e)
    assert entry["difference"] == pytest.approx(-0.05)
    assert entry["largest"] == ("image", pytest.approx(-0.05))


def test_sizes_of_a_group_are_counted_beside_the_papers():
    rows = [row("B", n, dataset="image") for n in (5, 6)] + [row("E", 5, dataset="image")]
    sizes = values.group_sizes(rows)
    assert (sizes["convex"]["ours"], sizes["cp"]["ours"]) == (2, 1)
    points = paper_points()["image"]["cp"]
    assert sizes["cp"]["paper"] == len({point.n_learners for point in points})


def test_no_p_value_is_zero():
    assert reproduction_report.p_equals(1e-9) == "p < 0.001"
    assert reproduction_report.p_equals(0.0312) == "p = 0.031"
