"""Quantiles that merge: the cuts of parts against those of the whole."""

import numpy as np
import pytest

from totalqboost.cluster.scanning import merged, seen_in
from totalqboost.cluster.summary import Summary
from totalqboost.dictionaries.stumps import cut_points


def summary(x, n_parts, size):
    parts = [Summary.of(part, size) for part in np.array_split(x, n_parts)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.merged(part).thinned()
    return whole


@pytest.mark.parametrize("n_parts", [1, 3, 40])
@pytest.mark.parametrize("max_bins", [4, 64, 256])
def test_cuts_of_few_values_are_those_of_memory_however_rows_are_parted(n_parts, max_bins):
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=1000), 1)
    x[::7] = np.nan
    found = summary(x, n_parts, 2048).cuts(max_bins)
    np.testing.assert_array_equal(found, cut_points(x, max_bins))


def test_ranks_of_kept_values_are_off_by_at_most_one_part_a_thinning():
    rng = np.random.default_rng(1)
    x, n_parts, size = rng.exponential(size=20_000), 16, 256
    whole = summary(x, n_parts, size)
    assert len(whole.values) <= size
    assert whole.counts.sum() == len(x)
    true = np.searchsorted(np.sort(x), whole.values, side="right")
    worst = np.abs(np.cumsum(whole.counts) - true).max() / len(x)
    assert worst <= n_parts / size  # a chain of merges; a tree has fewer thinnings


def test_parts_that_are_merged_at_once_are_thinned_once():
    rng = np.random.default_rng(3)
    own, size = [rng.normal(size=2500) * (1 + i) for i in range(8)], 256
    x = np.concatenate(own)
    parts = [seen_in(part[:, None], None, "from_dtype", size) for part in own]
    whole = merged(parts).columns[0].numbers
    assert len(whole.values) <= size
    true = np.searchsorted(np.sort(x), whole.values, side="right")
    worst = np.abs(np.cumsum(whole.counts) - true).max() / len(x)
    assert worst <= 2 / size  # one for the parts, one for all of them


def test_order_of_rows_in_a_part_does_not_matter_and_nothing_is_random():
    rng = np.random.default_rng(2)
    x = rng.normal(size=5000)
    one, other = Summary.of(x, 100), Summary.of(rng.permutation(x), 100)
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.counts, other.counts)


def test_a_constant_or_nothing_has_no_cuts():
    for x in (np.full(5, 2.0), np.array([np.nan]), np.zeros(0)):
        assert len(Summary.of(x, 100).cuts(256)) == 0
