"""The selection of cases and tests: what is left out of a run, and that pairs lose nothing."""

from __future__ import annotations

import itertools

import pytest
from selection import ALL, covering, in_groups, pairwise

import sciml_par.parallel as sp

COLUMNS = (range(7), "abcde", ((), (2,), (0,)))
PRODUCT = list(itertools.product(*COLUMNS))


def pairs(cases):
    return {pair for case in cases for pair in itertools.combinations(enumerate(case), 2)}


@pytest.mark.parametrize("cases", (PRODUCT, PRODUCT[::3], PRODUCT[:1]))
def test_a_few_cases_show_every_pair(cases):
    few = [cases[i] for i in covering(cases)]
    assert pairs(few) == pairs(cases)
    assert len(few) < len(cases) / 2 or len(cases) < len(PRODUCT)


def test_the_rest_of_a_product_is_marked():
    (parameters,) = pairwise(number=COLUMNS[0], letter=COLUMNS[1], shape=COLUMNS[2]).args[1:]
    assert [p.values for p in parameters] == PRODUCT
    few = [p.values for p in parameters if pytest.mark.all not in p.marks]
    assert pairs(few) == pairs(PRODUCT) and len(few) < len(PRODUCT) / 2


def test_groups_have_each_case_once():
    cases = list(itertools.product(*COLUMNS[1:]))
    marked = pytest.param(6, marks=pytest.mark.gpu)
    (parameters,) = in_groups("number, cases", [*range(6), marked], cases).args[1:]
    assert sorted((n, *case) for n, group in (p.values for p in parameters) for case in group) == (
        sorted(PRODUCT)
    )
    few = [p for p in parameters if pytest.mark.all not in p.marks]
    assert pairs((p.values[0], *case) for p in few for case in p.values[1]) == pairs(PRODUCT)
    assert [p.values[0] for p in parameters if pytest.mark.gpu in p.marks] == [6, 6]


@pytest.mark.ranks(least=2, reason="one rank is not to run it")
def test_more_ranks_than_one():
    assert sp.size() > 1


@pytest.mark.ranks(most=1, reason="others are not to run it")
def test_one_rank():
    assert sp.size() == 1


@pytest.mark.all
def test_all(request):
    assert request.config.getoption(ALL)
