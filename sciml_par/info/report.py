"""The page that `sciml-par info` prints: sections of labels with a sentence each."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.text import Text

from sciml_par._terminal import console
from sciml_par._text import counted, rank_list, ranks_by
from sciml_par.info.facts import Facts
from sciml_par.info.self_test import COUNT, Outcome
from sciml_par.parallel.startup.launcher_environment import launched_apart

GOOD, ODD, BAD = "green", "yellow", "bold red"
"""What a text reports, as its colour on a terminal."""
Said = tuple[str, str]
"""A text, and what it reports or ""."""
Row = tuple[str, Said]
"""A label, empty if the row continues the one above, and what is said."""
Ranks = Sequence[dict[str, Any]]

_WIDTH, _WIDTH_OF_TERMINAL, _LABEL = 80, 100, 16
_GPU = "pip install 'sciml-par[gpu]'"
_NOT_GIVEN = "set CUDA_VISIBLE_DEVICES to the GPUs of the host"
_OTHER_CUDA = f"its CUDA libraries are not those it was built with: {_GPU}"


def print_facts(facts: Facts) -> None:
    """Print everything but the self-test."""
    ranks = facts["ranks"]
    set_ = [rank["environment"] for rank in ranks]
    variables = (
        _row(name, (values.get(name, "not set") or "set, and empty" for values in set_))
        for name in sorted(set().union(*set_))
    )
    versions = (_row(v, (rank["versions"][v] for rank in ranks)) for v in ranks[0]["versions"])
    _print_section("Versions", versions)
    _print_section("MPI", _mpi(ranks))
    _print_section("Ranks", _ranks(ranks))
    _print_section("GPUs", _gpus(ranks, facts["transport_obstacle"]))
    _print_section("Compiled functions", _compiled(ranks, facts["native_obstacle"]))
    nothing = "", ("no variable that matters here is set", "")
    _print_section("Environment", list(variables) or [nothing])


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Print the self-test and, as the last line, its verdict."""
    title = f"Self-test: allreduce of {COUNT:,} float32, median time of a call"
    _print_section(title, _outcomes(outcomes))
    tried = [outcome["right"] for outcome in outcomes if outcome["tried"]]
    wrong, tests = tried.count(False), counted(len(tried), "test")
    verdict = f"{wrong} of {tests} went WRONG.", BAD
    if not wrong:
        verdict = f"All {tests} that could be tried went right.", GOOD
    if not tried:
        verdict = "Nothing was tried. Try two ranks: mpirun -np 2 sciml-par info", ODD
    _print(verdict)


def _print_section(title: str, rows: Iterable[Row]) -> None:
    rows, screen = list(rows), console()
    width = min(screen.width, _WIDTH_OF_TERMINAL) if screen.is_terminal else _WIDTH
    wide = max([_LABEL, *(len(label) for label, _ in rows)])
    _print((title, "bold"))
    for label, (text, style) in rows:
        for line in textwrap.wrap(text, width - wide - 4, break_on_hyphens=False):
            _print(f"  {label:<{wide}}  ", (line, style))
            label = ""
    print(flush=True)


def _print(*parts: str | Said) -> None:
    console().print(Text.assemble(*parts), soft_wrap=True)


def _row(label: str, answers: Iterable[str | Said]) -> Row:
    """Return the answer of all ranks; or, if they differ, each answer with its ranks."""
    ranks = ranks_by(
        enumerate((answer, "") if isinstance(answer, str) else answer for answer in answers)
    )
    if len(ranks) == 1:
        return label, next(iter(ranks))
    parts = "; ".join(f"{text} on {rank_list(those)}" for (text, _), those in ranks.items())
    return label, (f"differs: {parts}", BAD if BAD in {style for _, style in ranks} else ODD)


def _finding(label: str, ranks: Ranks, name: str) -> Row:
    """Return the version of a library; or, in the style BAD, why it is missing."""
    found = (rank[name] for rank in ranks)
    return _row(label, ((f["obstacle"], BAD) if f["obstacle"] else f["version"] for f in found))


def _mpi(ranks: Ranks) -> Iterator[Row]:
    yield _row("library", (rank["mpi_library"] for rank in ranks))
    yield _row("standard", (rank["mpi_standard"] for rank in ranks))
    for level, those in ranks_by(enumerate(rank["thread_level"] for rank in ranks)).items():
        text = f"{level} on {rank_list(those)}, not MULTIPLE: nothing notices ranks that hang"
        yield "thread level", (level, "") if level == "MULTIPLE" else (text, BAD)


def _ranks(ranks: Ranks) -> Iterator[Row]:
    hosts = ranks_by(enumerate(rank["host_number"] for rank in ranks)).values()
    yield "in all", (f"{counted(len(ranks), 'rank')} on {counted(len(hosts), 'host')}", "")
    if launched_apart(len(ranks), launched := ranks[0]["launched"]):
        text = f"mpirun started {launched} processes, and each is alone: mpi4py uses another MPI"
        yield "", (text, BAD)
    for group in hosts:
        of, each = [ranks[r] for r in group], " each" if group[1:] else ""
        cores = len({core for rank in of for core in rank["cores"]})
        pools = dict.fromkeys(name for rank in of for name in rank["thread_pools"])
        threads = [rank["threads"] for rank in of]
        least, most = min(threads), max(threads)
        used = counted(most, "thread") if least == most else f"{least} to {most} threads"
        text = f"{rank_list(group)}: {used}{each}, on {counted(cores, 'core')}"
        yield of[0]["host"], _on_cores(text, sum(threads) - cores, "collectives will be slow")
        for library in pools:
            threads = [rank["thread_pools"].get(library, 0) for rank in of]
            text = f"{library}: {counted(max(threads), 'thread')}{each}"
            yield "", _on_cores(text, sum(threads) - cores, "they wait for each other's cores")


def _on_cores(text: str, surplus: int, consequence: str) -> Said:
    return (f"{text}: too many threads, {consequence}", ODD) if surplus > 0 else (text, "")


def _gpus(ranks: Ranks, obstacle: str) -> Iterator[Row]:
    for group in ranks_by(enumerate(rank["host_number"] for rank in ranks)).values():
        host = ranks[group[0]]["host"]
        entries = {gpu["identity"]: gpu["entry"] for r in group for gpu in ranks[r]["visible"]}
        if not entries:
            yield host, ("none", "")
        for identity, entry in entries.items():
            users = [r for r in group if (gpu := ranks[r]["gpu"]) and gpu["identity"] == identity]
            names = dict.fromkeys(ranks[r]["gpu_name"] for r in users)
            uuid = "" if identity == entry else identity[: len("GPU-12345678")]
            known = ", ".join(filter(None, [f"GPU {entry}", *names, uuid]))
            yield host, (f"{known}: {rank_list(users) if users else 'no rank'}", "")
            host = ""
    devices = ranks_by(
        enumerate((rank["gpu"] is not None, rank["tensorflow_on_gpu"]) for rank in ranks)
    )
    wrong = ranks_by(enumerate(rank["tensorflow_is_right"] for rank in ranks)).get(False)
    for those, text, style in (
        (devices.get((True, True)), "computes on the GPU on {}", GOOD),
        (devices.get((True, False)), f"finds no GPU on {{}} and uses the CPU: {_GPU}", BAD),
        (devices.get((False, True)), f"computes on a GPU not given to {{}}: {_NOT_GIVEN}", BAD),
        (wrong, f"computes WRONG numbers on the GPU on {{}}: {_OTHER_CUDA}", BAD),
    ):
        if those:
            yield "" if those is wrong else "TensorFlow", (text.format(rank_list(those)), style)
    label, (bits, style) = _row(
        "TensorFloat-32", ("on" if rank["tensor_float_32"] else "off" for rank in ranks)
    )
    if bits != "off":
        bits, style = f"{bits}: float32 matrices are multiplied with ten bits", ODD
    yield label, (bits, style)
    label, (nccl, style) = _finding("NCCL", ranks, "nccl")
    unneeded = style == BAD and not any(rank["gpu"] for rank in ranks)
    yield label, (f"not needed without a GPU: {nccl}", "") if unneeded else (nccl, style)
    ways = ((f"tensors travel by {rank['transport']}", GOOD) for rank in ranks)
    label, travel = _row("between GPUs", ways)
    if obstacle and (len(ranks) == 1 or not any(rank["tensorflow_on_gpu"] for rank in ranks)):
        travel = f"nothing travels: {obstacle}", ""
    elif obstacle and not any(rank["transport"] == "NCCL" for rank in ranks):
        travel = f"{travel[0]} through host memory, which is slow: {obstacle}", BAD
    yield label, travel


def _compiled(ranks: Ranks, obstacle: str) -> Iterator[Row]:
    label, (version, style) = _finding("collectives", ranks, "foreign_calls")
    if style == BAD:
        yield label, (f"do not work with jit_compile=True: {version}", BAD)
        return
    interface = f"XLA's foreign-call interface, version {version}"
    yield label, (f"work with jit_compile=True ({interface})", style or GOOD)
    if len(ranks) > 1:
        by_code = "by machine code, through the host's shared memory", GOOD
        yield "short ones", (f"by Python and MPI: {obstacle}", "") if obstacle else by_code


def _outcomes(outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """Return the result of each context; or, if none could be tried, the reason."""
    for path in dict.fromkeys(outcome["path"] for outcome in outcomes):
        label, contexts = path, [outcome for outcome in outcomes if outcome["path"] == path]
        obstacles = {outcome["obstacle"] for outcome in contexts}
        if len(obstacles) == 1 and contexts[0]["obstacle"]:
            yield label, (f"not tried: {contexts[0]['obstacle']}", "")
            continue
        for outcome in contexts:
            if not outcome["tried"]:
                text, style = f"not tried: {outcome['obstacle']}", ODD
            elif outcome["right"]:
                text, style = f"right  {1e3 * outcome['seconds']:8.2f} ms", GOOD
            else:
                (rank, fault), *others = outcome["wrong"].items()
                also = f" ({rank_list([r for r, _ in others])} went wrong, too)" if others else ""
                text, style = f"WRONG: rank {rank} {fault}{also}", BAD
            yield label, (f"{outcome['context']:<11}  {text}", style)
            label = ""
