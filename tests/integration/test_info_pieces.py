"""The pieces of `sciml-par info`: its self-test, and its report on machines not at hand."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from info_page import sections_of
from launch import ROOT
from rich.text import Text

from sciml_par._text import one_line
from sciml_par.info import main as command
from sciml_par.info.facts import Facts, Finding, RankFacts, relevant
from sciml_par.info.report import (
    BAD,
    GOOD,
    ODD,
    Section,
    facts_sections,
    print_report,
    self_test_sections,
)
from sciml_par.info.self_test import (
    COMPILED,
    CONTEXTS,
    COUNT,
    Outcome,
    addend,
    compare,
    in_context,
    paths,
    total,
    try_collective,
)
from sciml_par.parallel import current_world
from sciml_par.parallel.startup.gpu_choice import VisibleGpu


def test_the_entry_of_the_project_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["scripts"]["sciml-par"].partition(":")
    assert getattr(importlib.import_module(module), name) is command.main
    assert command.make_parser().prog == "sciml-par"


def test_help_is_printed_without_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["info", "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "mpirun -np 4 sciml-par info" in said and "--json FILE" in said
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_context_runs_and_a_wrong_result_in_it_is_seen(context: str) -> None:
    import tensorflow as tf

    alone = current_world().alone
    seen = []

    def identity(x):
        seen.append(tf.executing_eagerly())
        return tf.identity(x)

    wrong, seconds = try_collective(in_context(context, identity, "/CPU:0"), "/CPU:0", alone)
    assert wrong == {} and seconds > 0
    assert set(seen) == {context == CONTEXTS[0]}
    assert (len(seen) == 1) == (context != CONTEXTS[0])  # traced once
    wrong, _ = try_collective(in_context(context, lambda x: 2 * x, "/CPU:0"), "/CPU:0", alone)
    assert wrong[0].startswith("got 2 where 1 is due, at place 1, and is wrong at 999 of 1000")


def test_a_compiled_context_is_compiled() -> None:
    import tensorflow as tf

    # What XLA cannot compile fails there and only there.
    unknown = lambda x: tf.numpy_function(lambda a: a, [x], tf.float32)  # noqa: E731
    for context in CONTEXTS:
        collective = in_context(context, unknown, "/CPU:0")
        wrong, _ = try_collective(collective, "/CPU:0", current_world().alone)
        assert bool(wrong) == (context == COMPILED)
        if wrong:
            assert "failed with" in wrong[0]


def test_a_result_of_an_earlier_call_is_wrong() -> None:
    first = []

    def stale(x):
        first.append(x)
        return first[0]

    wrong, _ = try_collective(stale, "/CPU:0", current_world().alone)
    assert "got 0 where 1 is due, at place 0" in wrong[0]


def test_the_numbers_tell_ranks_places_and_operations_apart() -> None:
    for size in (2, 3, 4, 7):
        summed = total(size, 3)
        assert summed.shape == (COUNT,) and summed.dtype == np.float32
        each = [addend(rank, 3) for rank in range(size)]
        np.testing.assert_array_equal(summed, np.sum(each, axis=0))
        wrong = [each[0], each[-1], summed / size, np.max(each, axis=0), summed[::-1]]
        assert all(compare(result, summed) for result in wrong)
        assert any(compare(size * x, summed) for x in each)
    # No rounding, in whatever order it is summed.
    assert total(360, 20).max() < 2**24


def test_compare_speaks_of_shapes_and_nan() -> None:
    due = np.ones(3, np.float32)
    assert compare(due, due) == ""
    assert compare(due[:2], due) == "got the shape (2,) where (3,) is due"
    assert "got nan where 1 is due, at place 1" in compare(np.array([1, np.nan, 1]), due)


# --- pages of machines that are not at hand

H100 = "NVIDIA H100"


def rank_facts(number: int = 0, **changes) -> RankFacts:
    """A rank with a GPU of its own, and all that it needs."""
    gpus = tuple(VisibleGpu(str(i), f"GPU-{i}{i}{i}{i}ffff-aaaa") for i in range(2))
    facts = RankFacts(
        host="node-a",
        host_number=0,
        cores=(0, 1, 2, 3),
        threads=2,
        launched=2,
        versions={"TensorFlow": "2.21.0", "CuPy": "14.2.0"},
        mpi_library="Some MPI 5",
        mpi_standard="4.1",
        thread_level="MULTIPLE",
        visible=gpus,
        gpu=gpus[number % 2],
        gpu_name=H100,
        tensorflow_on_gpu=True,
        tensor_float_32=False,
        copies=True,
        nccl=Finding("2.30.7"),
        foreign_calls=Finding("0.2"),
        environment={},
    )
    return replace(facts, **changes)


def two(obstacle: str = "", **changes) -> Facts:
    """Two such ranks, rank 1 with `changes`."""
    return Facts((rank_facts(0), rank_facts(1, **changes)), obstacle)


def printed(sections: list[Section]) -> list[str]:
    """The lines that a pipe gets."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        print_report(sections)
    return out.getvalue().splitlines()


def told(facts: Facts) -> dict[str, str]:
    return sections_of("\n".join(printed(facts_sections(facts))))


def styles(facts: Facts) -> dict[str, str]:
    rows = [row for section in facts_sections(facts) for row in section.rows]
    return {label: str(text.style) for label, text in rows if isinstance(text, Text)}


def test_tensor_float_32_where_it_is_on() -> None:
    on = "float32 matrices are multiplied with ten bits"
    assert (
        f"TensorFloat-32 differs: off on rank 0; on on rank 1: {on}"
        in told(two(tensor_float_32=True))["GPUs"]
    )


def test_a_machine_with_gpus_is_good() -> None:
    facts = two()
    assert told(facts)["GPUs"] == (
        f"node-a GPU 0, {H100}, GPU-0000ffff: rank 0 GPU 1, {H100}, GPU-1111ffff: rank 1 "
        "TensorFlow computes on the GPU on ranks 0 and 1 TensorFloat-32 off NCCL 2.30.7 "
        "between GPUs tensors travel by NCCL"
    )
    assert set(styles(facts).values()) <= {"", GOOD}
    assert [way.name for way in paths(facts)] == ["MPI, host memory", "NCCL, GPU memory"]
    assert not any(way.obstacle_in(context) for way in paths(facts) for context in CONTEXTS)
    assert told(facts)["Environment"] == "no variable that matters here is set"


def test_hosts_of_one_name_are_told_apart_and_shared_gpus_shown() -> None:
    ranks = [rank_facts(r, host_number=r // 3 * 3, gpu=rank_facts().visible[0]) for r in range(4)]
    found = told(Facts(tuple(ranks), ""))
    assert found["Ranks"] == (
        "in all 4 ranks on 2 hosts node-a ranks 0, 1 and 2: 2 threads each, on 4 cores: too many "
        "threads, so collectives will be slow node-a rank 3: 2 threads, on 4 cores"
    )
    assert (
        "GPU-0000ffff: ranks 0, 1 and 2 GPU 1, GPU-1111ffff: no rank node-a GPU 0" in found["GPUs"]
    )


def test_what_differs_between_ranks_is_odd() -> None:
    facts = two(versions={"TensorFlow": "2.22.0", "CuPy": "14.2.0"}, mpi_library="Other MPI")
    found = told(facts)
    assert found["Versions"].startswith(
        "TensorFlow differs: 2.21.0 on rank 0; 2.22.0 on rank 1 CuPy 14.2.0"
    )
    assert "library differs: Some MPI 5 on rank 0; Other MPI on rank 1" in found["MPI"]
    assert styles(facts)["library"] == styles(facts)["TensorFlow"].replace(GOOD, ODD) == ODD


def test_gpus_without_nccl_are_bad_and_the_other_way_is_tried() -> None:
    reason = "rank 1: CuPy finds no NCCL"
    facts = two(reason, nccl=Finding("", "CuPy finds no NCCL"), copies=False)
    found = told(facts)["GPUs"]
    assert "NCCL differs: 2.30.7 on rank 0; CuPy finds no NCCL on rank 1" in found
    assert f"by MPI through host memory, which is slow. The obstacle to NCCL: {reason}." in found
    assert styles(facts)["NCCL"] == styles(facts)["between GPUs"] == BAD
    ways = {way.name: way for way in paths(facts)}
    assert ways["NCCL, GPU memory"].obstacle_in("eager") == reason
    through_host = ways["MPI, GPU memory"]
    assert through_host.device == "/GPU:0"
    assert [through_host.obstacle_in(c) for c in CONTEXTS] == ["", "", "needs CuPy on rank 1"]


def test_a_tensorflow_without_gpu_is_bad() -> None:
    facts = two(tensorflow_on_gpu=False)
    assert "TensorFlow finds no GPU on rank 1 and computes on the CPU" in told(facts)["GPUs"]
    assert styles(facts)["TensorFlow"] == BAD
    ways = {way.name: way.obstacle for way in paths(facts)}
    assert ways == {
        "MPI, host memory": "",
        "NCCL, GPU memory": "TensorFlow finds no GPU on rank 1",
    }


def test_who_carries_short_tensors() -> None:
    assert "by machine code, through the host's shared memory" in told(two())["Compiled functions"]
    facts = replace(two(), native_obstacle="llvmlite is not installed")
    assert "by Python and MPI: llvmlite is not installed." in told(facts)["Compiled functions"]


def test_compiled_functions_without_foreign_calls_are_bad() -> None:
    assert styles(two())["collectives"] == GOOD
    facts = two(foreign_calls=Finding("", "no such interface"))
    reason = "differs: 0.2 on rank 0; no such interface on rank 1"
    assert reason in told(facts)["Compiled functions"]
    assert styles(facts)["collectives"] == BAD


def test_a_gpu_that_nobody_has_dealt_out_is_bad() -> None:
    ranks = tuple(rank_facts(r, visible=(), gpu=None) for r in range(2))
    facts = Facts(ranks, "ranks 0 and 1: no GPU")
    assert "on ranks 0 and 1 that was not given to the rank" in told(facts)["GPUs"]
    assert styles(facts)["TensorFlow"] == BAD


def test_outcomes_in_the_order_of_the_ways() -> None:
    outcomes = [
        Outcome("MPI, host memory", "eager", seconds=4.2e-5),
        Outcome("MPI, host memory", "tf.function", seconds=0.0042),
        Outcome("MPI, host memory", "jit_compile", wrong={1: "got 3", 2: "got 4"}, seconds=1.0),
        Outcome("NCCL, GPU memory", "eager", "no rank has a GPU"),
        Outcome("NCCL, GPU memory", "jit_compile", "no rank has a GPU"),
    ]
    lines = printed(self_test_sections(outcomes))
    assert lines[1:] == [
        "  MPI, host memory  eager        right      42 µs",
        "                    tf.function  right     4.2 ms",
        "                    jit_compile  WRONG: rank 1 got 3 (rank 2 went wrong, too)",
        "  NCCL, GPU memory  not tried: no rank has a GPU",
        "",
        "1 of 3 tests went WRONG.",
    ]


def test_long_texts_are_broken_at_blanks_beside_their_label() -> None:
    host = "a-host-with-a-very-long-name.example.org"
    rows = [
        ("short", Text("some words " * 9 + "pip install 'a-long-name[gpu]'")),
        (host, Text("words " * 12)),
    ]
    lines = printed([Section(Text("[bold] :smile:"), rows[:1]), Section(Text("Host"), rows[1:])])
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)
    assert lines[0] == "[bold] :smile:"  # nothing in a text is a command to rich
    assert lines[1].startswith("  short             some words")
    assert lines[2].startswith(" " * 20 + "words some")
    assert "".join(lines).count("'a-long-name[gpu]'") == 1
    assert any(line.startswith(f"  {host}  words words") for line in lines)
    assert any(line.startswith(" " * (len(host) + 4) + "words") for line in lines)


def test_a_terminal_gets_colours_and_its_own_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for columns, width in (("60", 60), ("400", 100)):
        monkeypatch.setenv("COLUMNS", columns)
        print_report([Section(Text("Title", "bold"), [("label", Text("words " * 99, BAD))])])
        title, *lines = capsys.readouterr().out.splitlines()
        assert title == "\x1b[1mTitle\x1b[0m"
        assert "\x1b[1;31mwords" in lines[0]
        longest = max(len(re.sub("\x1b.*?m", "", line)) for line in lines)
        assert width - len("words ") < longest <= width


def test_the_environment_that_matters() -> None:
    everything = {"NCCL_DEBUG": "INFO", "SCIML_PAR_CHECK": "", "HOME": "/", "XNCCL_A": "1"}
    everything["OMP_NUM_THREADS"] = everything["CUDA_VISIBLE_DEVICES"] = "1"
    assert [*relevant(everything)] == [
        "CUDA_VISIBLE_DEVICES",
        "NCCL_DEBUG",
        "OMP_NUM_THREADS",
        "SCIML_PAR_CHECK",
    ]


def test_an_error_in_one_line() -> None:
    assert one_line(ValueError("a\n  b")) == "a b"
    assert one_line(ValueError()) == "ValueError"
    assert len(one_line(ValueError("x" * 999))) == 300
