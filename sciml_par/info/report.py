"""The page that `sciml-par info` prints: sections of labels with a sentence each."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sciml_par._terminal import console
from sciml_par._text import counted, rank_list
from sciml_par.info.facts import Facts, Finding, launched_apart, ranks_by
from sciml_par.info.self_test import COUNT, Outcome

GOOD, ODD, BAD = "green", "yellow", "bold red"
"""What a text reports, as its colour on a terminal."""

Row = tuple[str, Text | Table]
"""A label, empty if the row continues the one above, and its content."""

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
    _print_section("Versions", _versions(facts))
    _print_section("MPI", _mpi(facts))
    _print_section("Ranks", _ranks(facts))
    _print_section("GPUs", _gpus(facts))
    _print_section("Compiled functions", _compiled(facts))
    _print_section("Environment", _environment(facts))


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Print the self-test and, as the last line, its verdict."""
    title = f"Self-test: allreduce of {COUNT:,} float32, median time of a call"
    by_path = itertools.groupby(outcomes, lambda outcome: outcome.path)
    _print_section(title, ((path, _path([*found])) for path, found in by_path))
    _print(_verdict(outcomes))


def _print_section(title: str, rows: Iterable[Row]) -> None:
    grid = _grid(rows, label_width=16)
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


def _grid(rows: Iterable[Row], label_width: int) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(min_width=label_width, no_wrap=True)
    grid.add_column(overflow="fold")
    for label, content in rows:
        grid.add_row(Text(label), content)
    return grid


def _versions(facts: Facts) -> Iterator[Row]:
    for name in facts.ranks[0].versions:
        yield name, _common(rank.versions[name] for rank in facts.ranks)


def _mpi(facts: Facts) -> Iterator[Row]:
    yield "library", _common(rank.mpi_library for rank in facts.ranks)
    yield "standard", _common(rank.mpi_standard for rank in facts.ranks)
    for level, ranks in ranks_by(rank.thread_level for rank in facts.ranks).items():
        text = f"{level} on {rank_list(ranks)}, not MULTIPLE: nothing notices ranks that hang"
        yield "thread level", Text(level) if level == "MULTIPLE" else Text(text, BAD)


def _ranks(facts: Facts) -> Iterator[Row]:
    hosts, launched = _hosts(facts), facts.ranks[0].launched
    yield "in all", Text(f"{counted(len(facts.ranks), 'rank')} on {counted(len(hosts), 'host')}")
    if launched_apart(len(facts.ranks), launched):
        text = f"mpirun started {launched} processes, and each is alone: mpi4py uses another MPI"
        yield "", Text(text, BAD)
    for ranks in hosts:
        yield facts.ranks[ranks[0]].host, _threads_and_cores(facts, ranks)


def _threads_and_cores(facts: Facts, ranks: Sequence[int]) -> Text:
    threads = [facts.ranks[r].threads for r in ranks]
    cores = len({core for r in ranks for core in facts.ranks[r].cores})
    least, most = min(threads), max(threads)
    used = counted(most, "thread") if least == most else f"{least} to {most} threads"
    each = " each" if len(ranks) > 1 else ""
    text = f"{rank_list(ranks)}: {used}{each}, on {counted(cores, 'core')}"
    if sum(threads) > cores:
        return Text(f"{text}: too many threads, so collectives will be slow", ODD)
    return Text(text)


def _gpus(facts: Facts) -> Iterator[Row]:
    for ranks in _hosts(facts):
        yield from _gpus_of_host(facts, ranks)
    seen = ranks_by((rank.gpu is not None, rank.tensorflow_on_gpu) for rank in facts.ranks)
    for kind, (text, style) in _TENSORFLOW.items():
        if kind in seen:
            yield "TensorFlow", Text(text.format(rank_list(seen[kind])), style)
    bits = _common("on" if rank.tensor_float_32 else "off" for rank in facts.ranks)
    if any(rank.tensor_float_32 for rank in facts.ranks):
        bits = Text(f"{bits}: float32 matrices are multiplied with ten bits", ODD)
    yield "TensorFloat-32", bits
    nccl = _finding([rank.nccl for rank in facts.ranks])
    if nccl.style == BAD and not any(rank.gpu for rank in facts.ranks):
        nccl = Text(f"not needed without a GPU: {nccl}")
    yield "NCCL", nccl
    yield "between GPUs", _transport(facts)


def _gpus_of_host(facts: Facts, ranks: Sequence[int]) -> Iterator[Row]:
    host = facts.ranks[ranks[0]].host
    entries = {gpu.identity: gpu.entry for r in ranks for gpu in facts.ranks[r].visible}
    if not entries:
        yield host, Text("none")
    for identity, entry in entries.items():
        users = [r for r in ranks if (gpu := facts.ranks[r].gpu) and gpu.identity == identity]
        names = dict.fromkeys(facts.ranks[r].gpu_name for r in users)
        uuid = "" if identity == entry else identity[: len("GPU-12345678")]
        known = ", ".join(filter(None, [f"GPU {entry}", *names, uuid]))
        yield host, Text(f"{known}: {rank_list(users) if users else 'no rank'}")
        host = ""


def _transport(facts: Facts) -> Text:
    if not facts.transport_obstacle:
        return Text("tensors travel by NCCL", GOOD)
    if len(facts.ranks) == 1:
        return Text("nothing travels: there is one rank")
    if not any(rank.gpu for rank in facts.ranks):
        return Text("nothing travels: no rank has a GPU")
    text = f"tensors travel by MPI through host memory, which is slow: {facts.transport_obstacle}"
    return Text(text, BAD)


def _compiled(facts: Facts) -> Iterator[Row]:
    found = _finding([rank.foreign_calls for rank in facts.ranks])
    if found.style == BAD:
        yield "collectives", Text(f"do not work with jit_compile=True: {found}", BAD)
        return
    version = f"XLA's foreign-call interface, version {found}"
    yield "collectives", Text(f"work with jit_compile=True ({version})", found.style or GOOD)
    if len(facts.ranks) > 1:
        obstacle = facts.native_obstacle
        by_code = Text("by machine code, through the host's shared memory", GOOD)
        yield "short ones", Text(f"by Python and MPI: {obstacle}") if obstacle else by_code


def _environment(facts: Facts) -> Iterator[Row]:
    environments = [rank.environment for rank in facts.ranks]
    names = sorted({name for environment in environments for name in environment})
    for name in names:
        yield name, _common(each.get(name, "not set") or "set, and empty" for each in environments)
    if not names:
        yield "", Text("no variable that matters here is set")


def _common(answers: Iterable[str]) -> Text:
    """Return the answer of all ranks; or, if they differ, each answer with its ranks."""
    found = ranks_by(answers)
    if len(found) == 1:
        return Text(*found)
    each = "; ".join(f"{text} on {rank_list(ranks)}" for text, ranks in found.items())
    return Text(f"differs: {each}", ODD)


def _finding(findings: Sequence[Finding]) -> Text:
    """Return the version; or, in the style BAD, why it is missing."""
    text = _common(each.obstacle or each.version for each in findings)
    return Text(str(text), BAD) if any(each.obstacle for each in findings) else text


def _hosts(facts: Facts) -> list[list[int]]:
    return list(ranks_by(rank.host_number for rank in facts.ranks).values())


def _path(outcomes: Sequence[Outcome]) -> Text | Table:
    """Return the result of each context; or, if none could be tried, the reason."""
    if len({outcome.obstacle for outcome in outcomes}) == 1 and outcomes[0].obstacle:
        return Text(f"not tried: {outcomes[0].obstacle}")
    return _grid([(each.context, _outcome(each)) for each in outcomes], len("tf.function"))


def _outcome(outcome: Outcome) -> Text:
    if outcome.seconds is None:
        return Text(f"not tried: {outcome.obstacle}", ODD)
    if not outcome.wrong:
        return Text(f"right  {1e3 * outcome.seconds:8.2f} ms", GOOD)
    (rank, fault), *others = outcome.wrong.items()
    also = f" ({rank_list([r for r, _ in others])} went wrong, too)" if others else ""
    return Text(f"WRONG: rank {rank} {fault}{also}", BAD)


def _verdict(outcomes: Sequence[Outcome]) -> Text:
    tried = [outcome for outcome in outcomes if not outcome.obstacle]
    wrong = sum(bool(outcome.wrong) for outcome in tried)
    if not tried:
        return Text("Nothing was tried. Try two ranks: mpirun -np 2 sciml-par info", ODD)
    if wrong:
        return Text(f"{wrong} of {counted(len(tried), 'test')} went WRONG.", BAD)
    return Text(f"All {counted(len(tried), 'test')} that could be tried went right.", GOOD)
