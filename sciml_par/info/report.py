"""The page that `sciml-par info` prints: sections of labels with a sentence each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sciml_par._terminal import console
from sciml_par._text import counted, rank_list
from sciml_par.info.facts import Facts, ranks_by
from sciml_par.info.self_test import COUNT, Outcome
from sciml_par.parallel.startup.launcher_environment import launched_apart

GOOD, ODD, BAD = "green", "yellow", "bold red"
"""What a text reports, as its colour on a terminal."""

Row = tuple[str, str, str]
"""A label, empty if the row continues the one above, its text, and what it reports or ""."""
Rank = dict[str, Any]

# (whether a rank has a GPU, whether its TensorFlow computes on one): report on these ranks
_TENSORFLOW = {
    (True, True): ("computes on the GPU on {}", GOOD),
    (True, False): ("finds no GPU on {} and uses the CPU: pip install 'sciml-par[gpu]'", BAD),
    (False, True): (
        "computes on a GPU not given to {}: set CUDA_VISIBLE_DEVICES to the GPUs of the host",
        BAD,
    ),
}


def print_facts(facts: Facts) -> None:
    """Print everything but the self-test."""
    ranks = facts["ranks"]
    hosts = list(ranks_by(rank["host_number"] for rank in ranks).values())
    versions = {name: [rank["versions"][name] for rank in ranks] for name in ranks[0]["versions"]}
    _print_section("Versions", ((name, *_common(values)) for name, values in versions.items()))
    _print_section("MPI", _mpi(ranks))
    _print_section("Ranks", _ranks(ranks, hosts))
    _print_section("GPUs", _gpus(ranks, hosts, facts["transport_obstacle"]))
    _print_section("Compiled functions", _compiled(ranks, facts["native_obstacle"]))
    environments = [rank["environment"] for rank in ranks]
    variables = [
        (name, *_common(known.get(name, "not set") or "set, and empty" for known in environments))
        for name in sorted(set().union(*environments))
    ]
    _print_section("Environment", variables or [("", "no variable that matters here is set", "")])


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Print the self-test and, as the last line, its verdict."""
    title = f"Self-test: allreduce of {COUNT:,} float32, median time of a call"
    _print_section(title, _outcomes(outcomes))
    tried = [each for each in outcomes if each["tried"]]
    wrong, tests = sum(not each["right"] for each in tried), counted(len(tried), "test")
    if not tried:
        _print(Text("Nothing was tried. Try two ranks: mpirun -np 2 sciml-par info", ODD))
    elif wrong:
        _print(Text(f"{wrong} of {tests} went WRONG.", BAD))
    else:
        _print(Text(f"All {tests} that could be tried went right.", GOOD))


def _print_section(title: str, rows: Iterable[Row]) -> None:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(min_width=16, no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text, style in rows:
        grid.add_row(Text(label), Text(text, style))
    _print(Text(title, "bold"), Padding(grid, (0, 0, 1, 2)))  # set in, an empty line below


def _print(*content: Text | Padding) -> None:
    """Print with colours on a terminal, as plain text elsewhere."""
    printer = console()
    printer.width = min(printer.width, 100) if printer.is_terminal else 80
    with printer.capture() as page:
        printer.print(*content, sep="\n")
    for line in page.get().splitlines():
        print(line.rstrip())  # rich fills lines with blanks
    sys.stdout.flush()


def _mpi(ranks: Sequence[Rank]) -> Iterator[Row]:
    yield "library", *_common(rank["mpi_library"] for rank in ranks)
    yield "standard", *_common(rank["mpi_standard"] for rank in ranks)
    for level, those in ranks_by(rank["thread_level"] for rank in ranks).items():
        text = f"{level} on {rank_list(those)}, not MULTIPLE: nothing notices ranks that hang"
        yield "thread level", *((level, "") if level == "MULTIPLE" else (text, BAD))


def _ranks(ranks: Sequence[Rank], hosts: Sequence[list[int]]) -> Iterator[Row]:
    launched = ranks[0]["launched"]
    yield "in all", f"{counted(len(ranks), 'rank')} on {counted(len(hosts), 'host')}", ""
    if launched_apart(len(ranks), launched):
        text = f"mpirun started {launched} processes, and each is alone: mpi4py uses another MPI"
        yield "", text, BAD
    for group in hosts:
        threads, suffix = [ranks[r]["threads"] for r in group], " each" if group[1:] else ""
        cores = len({core for r in group for core in ranks[r]["cores"]})
        least, most = min(threads), max(threads)
        used = counted(most, "thread") if least == most else f"{least} to {most} threads"
        text = f"{rank_list(group)}: {used}{suffix}, on {counted(cores, 'core')}"
        slow = ": too many threads, so collectives will be slow" if sum(threads) > cores else ""
        yield ranks[group[0]]["host"], text + slow, ODD if slow else ""
        pools = [ranks[r]["thread_pools"] for r in group]
        for library in dict.fromkeys(name for pool in pools for name in pool):
            threads = [pool.get(library, 0) for pool in pools]
            text = f"{library}: {counted(max(threads), 'thread')}{suffix}"
            slow = ": too many threads, which wait for each other's cores"
            yield "", *((text + slow, ODD) if sum(threads) > cores else (text, ""))


def _gpus(ranks: Sequence[Rank], hosts: Sequence[list[int]], obstacle: str) -> Iterator[Row]:
    for group in hosts:
        host = ranks[group[0]]["host"]
        entries = {gpu["identity"]: gpu["entry"] for r in group for gpu in ranks[r]["visible"]}
        if not entries:
            yield host, "none", ""
        for identity, entry in entries.items():
            users = [r for r in group if (gpu := ranks[r]["gpu"]) and gpu["identity"] == identity]
            names = dict.fromkeys(ranks[r]["gpu_name"] for r in users)
            uuid = "" if identity == entry else identity[: len("GPU-12345678")]
            known = ", ".join(filter(None, [f"GPU {entry}", *names, uuid]))
            yield host, f"{known}: {rank_list(users) if users else 'no rank'}", ""
            host = ""
    seen = ranks_by((rank["gpu"] is not None, rank["tensorflow_on_gpu"]) for rank in ranks)
    for kind, (text, style) in _TENSORFLOW.items():
        if kind in seen:
            yield "TensorFlow", text.format(rank_list(seen[kind])), style
    wrong = ranks_by(rank["tensorflow_is_right"] for rank in ranks).get(False)
    if wrong:
        text = f"computes WRONG numbers on the GPU on {rank_list(wrong)}: its CUDA libraries are "
        yield "", f"{text}not those it was built with: pip install 'sciml-par[gpu]'", BAD
    bits, style = _common("on" if rank["tensor_float_32"] else "off" for rank in ranks)
    if any(rank["tensor_float_32"] for rank in ranks):
        bits, style = f"{bits}: float32 matrices are multiplied with ten bits", ODD
    yield "TensorFloat-32", bits, style
    nccl, style = _finding(ranks, "nccl")
    if style == BAD and not any(rank["gpu"] for rank in ranks):
        nccl, style = f"not needed without a GPU: {nccl}", ""
    yield "NCCL", nccl, style
    travel, style = _common(f"tensors travel by {rank['transport']}" for rank in ranks)
    if not obstacle:
        style = GOOD
    elif len(ranks) == 1 or not any(rank["tensorflow_on_gpu"] for rank in ranks):
        travel, style = f"nothing travels: {obstacle}", ""
    elif not any(rank["transport"] == "NCCL" for rank in ranks):
        travel, style = f"{travel} through host memory, which is slow: {obstacle}", BAD
    yield "between GPUs", travel, style


def _compiled(ranks: Sequence[Rank], obstacle: str) -> Iterator[Row]:
    version, style = _finding(ranks, "foreign_calls")
    if style == BAD:
        yield "collectives", f"do not work with jit_compile=True: {version}", BAD
        return
    interface = f"XLA's foreign-call interface, version {version}"
    yield "collectives", f"work with jit_compile=True ({interface})", style or GOOD
    if len(ranks) > 1 and obstacle:
        yield "short ones", f"by Python and MPI: {obstacle}", ""
    elif len(ranks) > 1:
        yield "short ones", "by machine code, through the host's shared memory", GOOD


def _common(answers: Iterable[str]) -> tuple[str, str]:
    """Return the answer of all ranks; or, if they differ, each answer with its ranks."""
    found = ranks_by(answers)
    if len(found) == 1:
        return next(iter(found)), ""
    each = "; ".join(f"{text} on {rank_list(ranks)}" for text, ranks in found.items())
    return f"differs: {each}", ODD


def _finding(ranks: Sequence[Rank], name: str) -> tuple[str, str]:
    """Return the version; or, in the style BAD, why it is missing."""
    text, style = _common(rank[name]["obstacle"] or rank[name]["version"] for rank in ranks)
    return text, BAD if any(rank[name]["obstacle"] for rank in ranks) else style


def _outcomes(outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """Return the result of each context; or, if none could be tried, the reason."""
    for path in dict.fromkeys(each["path"] for each in outcomes):
        label, contexts = path, [each for each in outcomes if each["path"] == path]
        if len({each["obstacle"] for each in contexts}) == 1 and contexts[0]["obstacle"]:
            yield label, f"not tried: {contexts[0]['obstacle']}", ""
            continue
        for outcome in contexts:
            if not outcome["tried"]:
                text, style = f"not tried: {outcome['obstacle']}", ODD
            elif outcome["right"]:
                text, style = f"right  {1e3 * outcome['seconds']:8.2f} ms", GOOD
            else:
                (rank, fault), *others = outcome["wrong"].items()
                also = rank_list([r for r, _ in others]) if others else ""
                text = f"WRONG: rank {rank} {fault}{f' ({also} went wrong, too)' if also else ''}"
                style = BAD
            yield label, f"{outcome['context']:<11}  {text}", style
            label = ""
