"""What benchmarks/gpu_check.py computes and prints: rows, tables, budget, verdicts, due values."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
import pytest
from launch import ROOT

sys.path.append(str(ROOT / "benchmarks"))

from gpu.cases import TYPES, cases, difference, expected, loop_result, stepped, values
from gpu.measure import verdict
from gpu.probe import Watched
from gpu.record import Budget, Recorder, SkippedError, WrongError, read
from gpu.report import (
    FAILED,
    MACHINE,
    OK,
    SKIPPED,
    Row,
    bus_bandwidth,
    byte_text,
    exit_code,
    merged,
    speed_table,
    summary,
    table,
    write_json,
)

from sciml_par.parallel.requests.reduce_op import Average, Sum
from sciml_par.parallel.requests.request import Allreduce

# Rows and tables


def test_the_bus_bandwidth_is_that_of_a_ring():
    assert bus_bandwidth(2, 10**9, 1.0) == pytest.approx(1.0)
    assert bus_bandwidth(4, 10**9, 1.0) == pytest.approx(1.5)
    assert bus_bandwidth(8, 10**9, 0.5) == pytest.approx(3.5)
    assert bus_bandwidth(1, 10**9, 0.5) == pytest.approx(2.0)  # copied: a ring of one has no link


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(4, "4 B"), (1023, "1023 B"), (1024, "1 KiB"), (256 << 10, "256 KiB"), (1 << 30, "1 GiB")],
)
def test_bytes_are_told_in_their_unit(nbytes, text):
    assert byte_text(nbytes) == text


def speed_row(nbytes: int, way: str, *, microseconds: float, ranks: int = 2) -> Row:
    times = {f"{name}_us": microseconds for name in ("stream", "transfer", "return", "done")}
    rate = bus_bandwidth(ranks, nbytes, 1e-6 * microseconds)
    numbers = {"way": way, "nbytes": nbytes, "ranks": ranks, "rate_gb_s": rate, **times}
    return Row("two ranks", f"allreduce of {nbytes}, {way}", OK, "right", numbers)


def test_the_tables_show_each_row_once():
    rows = [
        Row("two ranks", "values", OK, "230 cases"),
        speed_row(4, "eager", microseconds=12.34),
        speed_row(4, "compiled", microseconds=5.0),
        speed_row(1 << 20, "eager", microseconds=4321.0),
        Row("two ranks", "allreduce of 1 GiB, eager", SKIPPED, "not enough free memory"),
        Row("a rank per GPU", "everything", SKIPPED, "there is one GPU only"),
    ]
    lines = [line.split() for line in table(rows).splitlines() if line]
    assert lines == [
        ["two", "ranks", "result"],
        ["values", "ok", "230", "cases"],
        ["allreduce", "of", "1", "GiB,", "eager", "skipped", "not", "enough", "free", "memory"],
        ["a", "rank", "per", "GPU", "result"],
        ["everything", "skipped", "there", "is", "one", "GPU", "only"],
    ]
    blocks = speed_table(rows).split("\n\n")[1:]
    assert [block.splitlines()[0] for block in blocks] == [
        "two ranks, allreduce, compiled",
        "two ranks, allreduce, eager",
    ]
    assert [line.split() for line in blocks[1].splitlines()[2:]] == [
        ["4", "B", *["12.3"] * 4, "0.0"],
        ["1", "MiB", *["4321"] * 4, "0.2"],
    ]
    assert "GB/s bus" in blocks[1]
    assert speed_table(rows[:1]) == ""


def test_of_several_ranks_the_worst_result_and_the_slowest_time_count():
    fast, slow = (speed_row(4, "eager", microseconds=t) for t in (5.0, 8.0))
    ok, wrong = Row("s", "values", OK, "all"), Row("s", "values", FAILED, "3 wrong")
    begun = Row("s", "later", FAILED, "crashed")
    both, values_row, later = merged([[fast, ok], [slow, wrong, begun]])
    assert both.numbers["done_us"] == 8.0
    assert both.numbers["rate_gb_s"] == slow.numbers["rate_gb_s"]
    assert (values_row.result, values_row.detail) == (FAILED, "rank 1: 3 wrong")
    assert later.detail == "rank 0: nothing came from it; rank 1: crashed"
    same = Row("s", "w", SKIPPED, "by design")
    assert merged([[same], [same]]) == [same]


@pytest.mark.parametrize(
    ("results", "code", "said"),
    [
        ([OK, SKIPPED], 0, "2 checks and measurements: 1 ok, 0 failed, 1 skipped."),
        ([OK, FAILED], 1, "2 checks and measurements: 1 ok, 1 failed, 0 skipped."),
        ([SKIPPED], 1, "Nothing could be checked."),
        ([], 1, "Nothing could be checked."),
    ],
)
def test_it_ends_well_only_if_something_was_checked_and_nothing_wrong(results, code, said):
    rows = [Row(MACHINE, "Python", OK), *[Row("one rank", str(r), r) for r in results]]
    assert exit_code(rows) == code
    assert summary(rows) == said


def test_the_results_are_written_whole(tmp_path):
    rows = [Row(MACHINE, "Python", OK, "3.11"), speed_row(4, "eager", microseconds=3.0)]
    write_json(tmp_path / "new" / "found.json", rows)
    found = json.loads((tmp_path / "new" / "found.json").read_text())
    assert [Row(**row) for row in found["rows"]] == rows


# Budget and recorder


def test_a_budget_runs_out():
    now = [100.0]
    budget = Budget(50.0, clock=lambda: now[0])
    assert (budget.left, budget.share(30.0), budget.share(30.0, reserve=35.0)) == (50, 30, 15)
    assert budget.share(math.inf, reserve=20.0) == 30.0
    now[0] = 149.0
    assert budget.share(5.0, reserve=3.0) == 0.0
    now[0] = 151.0
    assert budget.left == 0.0


def raising(error: Exception) -> Any:
    def action() -> Any:
        raise error

    return action


def test_the_recorder_writes_a_row_for_whatever_happens(tmp_path):
    out = tmp_path / "rows"
    recorder = Recorder(out, "stage", Budget(100.0), done=["before"])
    recorder.check("before", raising(AssertionError("it was done already")))
    recorder.check("fine", lambda: ("text", {"n": 1}))
    recorder.check("wrong", raising(WrongError("3 of 4")))
    recorder.check("not here", raising(SkippedError("no GPU")))
    recorder.check("broken", raising(ValueError("a\nb " + 500 * "x")))
    recorder.check("long", lambda: ("", {}), needs=1000.0)
    rows, begun = read(out)
    assert begun is None
    assert [(row.what, row.result) for row in rows] == [
        ("fine", OK),
        ("wrong", FAILED),
        ("not here", SKIPPED),
        ("broken", FAILED),
        ("long", SKIPPED),
    ]
    assert rows[0].numbers == {"n": 1}
    assert rows[3].detail.startswith("ValueError: a b x") and len(rows[3].detail) == 300
    assert rows[4].detail == "out of time"


def test_no_rank_skips_what_another_does(tmp_path):
    recorder = Recorder(tmp_path / "rows", "stage", Budget(100.0), agree=lambda mine: False)
    recorder.check("one", lambda: ("", {}))
    assert read(tmp_path / "rows")[0][0].detail == "out of time"


def test_what_a_process_had_begun_is_known_even_if_it_died_while_writing(tmp_path):
    out = tmp_path / "rows"
    Recorder(out, "stage", Budget(100.0)).check("one", lambda: ("", {}))
    with out.open("a") as file:
        file.write('{"begun": "two"}\n{"row": {"stage"')
    rows, begun = read(out)
    assert ([row.what for row in rows], begun) == (["one"], "two")
    assert read(tmp_path / "nowhere") == ([], None)


# Verdicts


def watched(longest: float, ahead: int) -> Watched:
    return Watched([1e-5] * 9 + [longest], [], busy_seconds=0.3, ahead=ahead)


def test_a_host_that_goes_on_was_never_blocked():
    text, numbers = verdict(watched(5e-5, 10), returned=0.001)
    assert text.startswith("never blocked: at most 50 µs")
    assert numbers["ahead"] == numbers["calls"] == 10
    text, _ = verdict(watched(5e-5, 1), returned=0.31)
    assert text.startswith("never blocked; the program waited elsewhere")


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (watched(0.29, 10), "blocked for 290.0 ms"),
        (watched(5e-5, 0), "came back after the GPU was done"),
        (Watched([1e-5], [], busy_seconds=0.0, ahead=1), "nothing was seen"),
        (Watched(), "nothing was seen"),
    ],
)
def test_a_host_that_waits_is_found(seen, said):
    with pytest.raises(WrongError, match=said):
        verdict(seen, returned=0.3)


def test_a_difference_is_found_down_to_rounding():
    due = np.array([1.0, -2.0, 0.0], np.float32)
    assert difference(due.copy(), due) == ""
    assert difference(np.nextafter(due, np.float32(9)) * (due != 0), due) == ""
    assert "1 of 3 wrong: [1] is nan" in difference(np.array([1, np.nan, 0], np.float32), due)
    assert "1 of 3 wrong: [0] is 1.0001" in difference(np.array([1.0001, -2, 0], np.float32), due)
    assert "float64 [3] where float32 [3] was due" in difference(due.astype(np.float64), due)
    assert "int32 [2] where int32 [3]" in difference(
        np.arange(2, dtype="i4"), np.arange(3, dtype="i4")
    )
    whole = np.arange(4, dtype=np.uint32)
    assert "1 of 4 wrong: [2] is 9, not 2" in difference(np.array([0, 1, 9, 3], np.uint32), whole)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_cases_fit_together_on_all_ranks(size):
    """What ranks send is what they receive, and all ask for the same."""
    for dtype in TYPES:
        of_all = [[case.request for case in cases(dtype, r, size)] for r in range(size)]
        for requests in zip(*of_all, strict=True):
            assert len({request.signature for request in requests}) == 1
            xs = [values(request, r) for r, request in enumerate(requests)]
            for rank, request in enumerate(requests):
                y = expected(requests, xs, rank)
                assert (y.shape, y.dtype) == (request.receive_shape, request.element.numpy)
                assert np.isfinite(y.astype(np.float64)).all()


def test_the_expected_values_by_hand():
    xs = [np.array([1, 2], np.float32), np.array([3, 7], np.float32)]
    requests = [Allreduce("float32", (2,), op=Average)] * 2
    assert expected(requests, xs, 0).tolist() == [2.0, 4.5]
    sums = [Allreduce("uint32", (1,), op=Sum)] * 2
    start_values = [np.array([1], np.uint32), np.array([2**31], np.uint32)]
    # 3·1 + 1 = 4 and 3·2³¹ + 2 = 2³¹ + 2 modulo 2³²
    assert stepped(start_values[1], 1).tolist() == [2**31 + 2]
    assert loop_result([[sums[0]]] * 2, start_values, 0, 1).tolist() == [2**31 + 6]
