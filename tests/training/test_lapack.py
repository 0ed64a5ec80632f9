"""BLAS and LAPACK by pointers, against NumPy."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from sciml_par.training.optimizers.least_squares import lapack
from sciml_par.training.optimizers.least_squares.on_host import threads

pytestmark = pytest.mark.ranks(most=1, reason="local")


def rows_of(p: int, n: int) -> np.ndarray:
    return np.random.default_rng(p + 100 * n).normal(size=(p, n))


def test_threads_are_those_from_before_afterwards() -> None:
    def blas() -> list[int]:
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    lapack.gram(rows_of(2, 2), np.empty([2, 2]), add=False)  # loads the library
    # A library takes no more threads than there are cores.
    with threadpool_limits(2, user_api="blas"):
        before = blas()
        with pytest.raises(KeyError), threads(2):
            assert set(blas()) == {1}
            raise KeyError
        assert blas() == before
        first, second = threads(2), threads(3)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(blas()) == {1}
        second.__exit__(None, None, None)
        assert blas() == before


def test_a_thread_that_has_limited_blas_leaves_it_to_others() -> None:
    def limited() -> None:
        with threads(2):
            pass

    lapack.gram(rows_of(2, 2), np.empty([2, 2]), add=False)
    with ThreadPoolExecutor(1) as other:  # its thread lives on
        other.submit(limited).result()
        with threadpool_limits(1, user_api="blas"):
            blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
            assert {pool["num_threads"] for pool in blas} == {1}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_threads_share_rows_and_change_no_number_but_by_rounding(count: int) -> None:
    p, n = 700, 300
    rows = rows_of(p, n)
    matrix = rows @ rows.T + n * np.eye(p)
    found, factor, product = np.zeros([p, p]), matrix.copy(), np.ones([p, 5])
    with threads(count):
        lapack.gram(rows, found, add=False)
        lapack.products(rows, rows[:5], product, factor=-1.0)
        assert lapack.cholesky(factor)
        assert not lapack.cholesky(np.diag(np.arange(p)[::-1].astype(float)))
    np.testing.assert_allclose(np.tril(found), np.tril(rows @ rows.T), rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(product, 1 - rows @ rows[:5].T, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), rtol=1e-11, atol=1e-12)


def test_threads_of_products_do_not_spin() -> None:
    rows, out = rows_of(1200, 600), np.empty([1200, 1200])

    def seconds(count: int) -> float:
        with threads(count):
            began = time.process_time()
            lapack.gram(rows, out, add=False)
            return time.process_time() - began

    # Those of BLAS took 5 to 20 times as long where other programs wanted the cores.
    assert min(seconds(2) for _ in range(5)) < 2 * max(seconds(1) for _ in range(5))
