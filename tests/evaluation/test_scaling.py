"""Speed-up, efficiency, mean and deviation, against their definitions."""

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.evaluation import mean_and_deviation, parallel_efficiency, speed_up


def test_speed_up_and_efficiency_against_one_rank():
    ranks, seconds = [1, 2, 8], [12.0, 8.0, 3.0]
    np.testing.assert_array_equal(speed_up(ranks, seconds), [1.0, 1.5, 4.0])
    np.testing.assert_array_equal(parallel_efficiency(ranks, seconds), [1.0, 0.75, 0.5])


def test_the_fewest_ranks_count_as_ideal_wherever_they_stand():
    ranks, seconds = [8, 2, 4], [1.0, 3.0, 2.0]
    np.testing.assert_array_equal(speed_up(ranks, seconds), [6.0, 2.0, 3.0])
    np.testing.assert_array_equal(parallel_efficiency(ranks, seconds), [0.75, 1.0, 0.75])


def test_a_throughput_that_grows_with_the_ranks_is_ideal():
    rates = np.array([10.0, 20.0, 40.0])
    np.testing.assert_array_equal(parallel_efficiency([1, 2, 4], 1.0 / rates), 1.0)


@pytest.mark.parametrize(
    ("ranks", "seconds", "message"),
    [
        ([1, 2], [1.0], "one shape"),
        ([], [], "one shape"),
        ([[1, 2]], [[1.0, 1.0]], "one shape"),
        ([0, 1], [1.0, 1.0], "whole numbers ≥ 1"),
        ([1, 1.5], [1.0, 1.0], "whole numbers ≥ 1"),
        ([2, 2], [1.0, 1.0], "none of them twice"),
        ([1, float("nan")], [1.0, 1.0], "whole numbers ≥ 1"),
        ([1, 2], [1.0, 0.0], "times > 0"),
        ([1, 2], [1.0, float("inf")], "times > 0"),
        ([1, 2], ["1", "2"], "real numbers"),
    ],
)
def test_what_was_not_measured_is_refused(ranks, seconds, message):
    for function in (speed_up, parallel_efficiency):
        with pytest.raises(InputError, match=message):
            function(ranks, seconds)


def test_mean_and_deviation_of_a_sample():
    mean, deviation = mean_and_deviation([2.0, 4.0, 4.0, 6.0])
    assert mean == 4.0
    assert deviation == pytest.approx(np.sqrt(8.0 / 3.0), rel=1e-15)


def test_the_deviation_of_one_value_is_not_known():
    mean, deviation = mean_and_deviation([5.0])
    assert mean == 5.0 and np.isnan(deviation)


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [[1.0, 2.0]], 3.0])
def test_a_mean_of_nothing_or_of_no_numbers_is_refused(values):
    with pytest.raises(InputError, match="finite numbers"):
        mean_and_deviation(values)
