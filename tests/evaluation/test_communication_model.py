"""The model of an allreduce, against its formula and on exact made-up measurements."""

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.evaluation import CommunicationModel, fit_communication

MODEL = CommunicationModel(latency=2e-6, seconds_per_byte=5e-10)


def test_the_formula():
    found = MODEL.seconds([1, 2, 8], 1e6)
    expected = [0.0, 2e-6 + 2.5e-4, 6e-6 + 5e-10 * 875_000]
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    np.testing.assert_array_equal(MODEL.seconds([2, 4], [0, 0]), [2e-6, 4e-6])


@pytest.mark.parametrize("model", [MODEL, CommunicationModel(0.0, 1e-9)])
def test_exact_times_give_the_model_back(model):
    sizes = np.array([4.0, 1e3, 1e5, 1e7])
    ranks, nbytes = (a.ravel() for a in np.meshgrid([2, 3, 16], sizes))
    found = fit_communication(ranks, nbytes, model.seconds(ranks, nbytes))
    assert found.seconds_per_byte == pytest.approx(model.seconds_per_byte, rel=1e-12)
    assert found.latency == pytest.approx(model.latency, rel=1e-12, abs=1e-18)


def test_small_arrays_count_as_much_as_large_ones():
    """A large array's absolute error would drown the latency."""
    nbytes = np.array([8.0, 8.0, 1e8, 1e8])
    seconds = MODEL.seconds(2, nbytes) * [0.9, 1.1, 0.9, 1.1]
    found = fit_communication([2, 2, 2, 2], nbytes, seconds)
    # The minimum of (a/0.9 − 1)² + (a/1.1 − 1)² is at a = 0.98 for either term.
    share = (1 / 0.9 + 1 / 1.1) / (1 / 0.9**2 + 1 / 1.1**2)
    assert found.latency == pytest.approx(share * MODEL.latency, rel=1e-3)
    assert found.seconds_per_byte == pytest.approx(share * MODEL.seconds_per_byte, rel=1e-9)


def test_a_latency_below_zero_is_not_found():
    """Two times whose line meets the axis below zero."""
    found = fit_communication([2, 2], [1e3, 1e6], [1e-7, 1e-3])
    assert found.latency == 0.0 and found.seconds_per_byte > 0.0


def test_efficiencies():
    computation, nbytes = 1e-3, 1e6
    spent = MODEL.seconds(4, nbytes)
    weak, strong = (
        MODEL.efficiency([1, 4], nbytes, computation, scaling=scaling)
        for scaling in ("weak", "strong")
    )
    np.testing.assert_allclose(weak, [1.0, 1e-3 / (1e-3 + spent)], rtol=1e-15)
    np.testing.assert_allclose(strong, [1.0, 1e-3 / (4 * (2.5e-4 + spent))], rtol=1e-15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([2, 2], [8, 8], [1e-6, 1e-6]), "told apart"),
        (([2], [8], [1e-6]), "told apart"),
        (([2, 4], [0, 0], [1e-6, 2e-6]), "told apart"),
        (([], [], []), "told apart"),
        (([1, 2], [8, 80], [1e-6, 1e-6]), "one rank has no allreduce"),
        (([2, 2], [8, 80], [1e-6]), "one shape"),
        (([2, 2], [8, 80], [1e-6, 0.0]), "seconds > 0"),
        (([2, 2.5], [8, 80], [1e-6, 1e-6]), "whole numbers"),
        (([2, 2], [8, float("nan")], [1e-6, 1e-6]), "nbytes: expected finite"),
    ],
)
def test_what_cannot_be_fitted_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        fit_communication(*arguments)


def test_what_no_network_has_is_refused():
    with pytest.raises(InputError, match="latency ≥ 0; got -1"):
        CommunicationModel(-1.0, 1e-9)
    with pytest.raises(InputError, match="seconds_per_byte ≥ 0; got nan"):
        CommunicationModel(1e-6, float("nan"))
    with pytest.raises(InputError, match="'weak' or 'strong'; got 'both'"):
        MODEL.efficiency([2], 8, 1e-3, scaling="both")
    with pytest.raises(InputError, match="computation > 0 seconds; got 0"):
        MODEL.efficiency([2], 8, 0.0, scaling="weak")
