"""The report that `sciml-par info` prints: the facts in sentences, and how the self-test went."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sciml_par._terminal import console
from sciml_par._text import counted, rank_list
from sciml_par.info.facts import Facts, Finding, RankFacts
from sciml_par.info.self_test import COUNT, Outcome

GOOD, ODD, BAD = "green", "yellow", "bold red"
"""How a text is to be taken, as the colour in which a terminal shows it."""

_LABEL_WIDTH = 16
_CONTEXT_WIDTH = len("tf.function")
_WIDTH_WITHOUT_TERMINAL = 80
_WIDEST = 100
_UUID_SHOWN = len("GPU-12345678")

Row = tuple[str, Text | Table]
"""A label, empty where the row goes on from the one above, and what there is to say."""


@dataclass(frozen=True)
class Section:
    """Rows under a title."""

    title: Text
    rows: Sequence[Row] = ()


def print_report(sections: Sequence[Section]) -> None:
    """Print sections: with colours on a terminal, as plain text elsewhere."""
    printer = console()
    printer.width = min(printer.width, _WIDEST) if printer.is_terminal else _WIDTH_WITHOUT_TERMINAL
    with printer.capture() as report:
        for section in sections:
            printer.print(section.title)
            if section.rows:
                # Below each other and set in, with an empty line behind.
                printer.print(Padding(_grid(section.rows, _LABEL_WIDTH), (0, 0, 1, 2)))
    for line in report.get().splitlines():
        print(line.rstrip())  # rich fills lines up with blanks
    sys.stdout.flush()


def _grid(rows: Sequence[Row], label_width: int) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(min_width=label_width, no_wrap=True)
    grid.add_column(overflow="fold")
    for label, content in rows:
        grid.add_row(Text(label), content)
    return grid


def facts_sections(facts: Facts) -> list[Section]:
    """Everything but the self-test."""
    found = {
        "Versions": _versions(facts),
        "MPI": _mpi(facts),
        "Ranks": _ranks(facts),
        "GPUs": _gpus(facts),
        "Compiled functions": _compiled(facts),
        "Environment": _environment(facts),
    }
    return [Section(Text(title, "bold"), list(rows)) for title, rows in found.items()]


def self_test_sections(outcomes: Sequence[Outcome]) -> list[Section]:
    """The self-test and, as the last line, what it comes to."""
    by_path: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_path.setdefault(outcome.path, []).append(outcome)
    title = f"Self-test: allreduce of {COUNT:,} float32, median time of a call"
    rows = [(path, _how_path_went(found)) for path, found in by_path.items()]
    return [Section(Text(title, "bold"), rows), Section(_verdict(outcomes))]


def _versions(facts: Facts) -> Iterator[Row]:
    for name in facts.ranks[0].versions:
        yield name, _common(facts, partial(_version, name))


def _version(name: str, rank: RankFacts) -> str:
    return rank.versions[name]


def _mpi(facts: Facts) -> Iterator[Row]:
    yield "library", _common(facts, lambda rank: rank.mpi_library)
    yield "standard", _common(facts, lambda rank: rank.mpi_standard)
    for level, ranks in facts.by_answer(lambda rank: rank.thread_level).items():
        if level == "MULTIPLE":
            yield "thread level", Text(level)
        else:
            text = (
                f"{level} on {rank_list(ranks)}, not MULTIPLE: there is no watchdog, so ranks "
                f"that wait for each other in vain are not noticed."
            )
            yield "thread level", Text(text, BAD)


def _ranks(facts: Facts) -> Iterator[Row]:
    hosts = _hosts(facts)
    yield "in all", Text(f"{counted(len(facts.ranks), 'rank')} on {counted(len(hosts), 'host')}")
    if facts.launched_apart:
        text = (
            f"The launcher has started {facts.ranks[0].launched} processes, and each is alone: "
            f"mpirun belongs to another MPI than the library above."
        )
        yield "", Text(text, BAD)
    for ranks in hosts:
        yield facts.ranks[ranks[0]].host, _threads_and_cores(facts, ranks)


def _threads_and_cores(facts: Facts, ranks: Sequence[int]) -> Text:
    here = [facts.ranks[r] for r in ranks]
    least, most = (end(rank.threads for rank in here) for end in (min, max))
    threads = counted(most, "thread") if least == most else f"{least} to {most} threads"
    cores = len({core for rank in here for core in rank.cores})
    each = " each" if len(here) > 1 else ""
    text = f"{rank_list(ranks)}: {threads}{each}, on {counted(cores, 'core')}"
    if sum(rank.threads for rank in here) > cores:
        return Text(f"{text}: too many threads, so collectives will be slow", ODD)
    return Text(text)


def _gpus(facts: Facts) -> Iterator[Row]:
    for ranks in _hosts(facts):
        yield from _gpus_of_host(facts, ranks)
    for text in _tensorflow(facts):
        yield "TensorFlow", text
    yield "TensorFloat-32", _tensor_float_32(facts)
    nccl = _finding(facts, lambda rank: rank.nccl)
    if nccl.style == BAD and not facts.any_gpu:
        nccl = Text(f"none, and without a GPU none is needed. {nccl}.")
    yield "NCCL", nccl
    yield "between GPUs", _transport(facts)


def _tensorflow(facts: Facts) -> Iterator[Text]:
    blind = facts.ranks_where(lambda rank: rank.gpu is not None and not rank.tensorflow_on_gpu)
    loose = facts.ranks_where(lambda rank: rank.gpu is None and rank.tensorflow_on_gpu)
    seeing = facts.ranks_where(lambda rank: rank.gpu is not None and rank.tensorflow_on_gpu)
    if seeing:
        yield Text(f"computes on the GPU on {rank_list(seeing)}", GOOD)
    if blind:
        yield Text(
            f"finds no GPU on {rank_list(blind)} and computes on the CPU; "
            f"pip install 'sciml-par[gpu]' brings one that does.",
            BAD,
        )
    if loose:
        yield Text(
            f"computes on a GPU on {rank_list(loose)} that was not given to the rank, since "
            f"/proc/driver/nvidia lists none; set CUDA_VISIBLE_DEVICES to the GPUs of the host.",
            BAD,
        )


def _tensor_float_32(facts: Facts) -> Text:
    text = _common(facts, lambda rank: "on" if rank.tensor_float_32 else "off")
    if not any(rank.tensor_float_32 for rank in facts.ranks):
        return text
    return Text(f"{text}: float32 matrices are multiplied with ten bits", ODD)


def _gpus_of_host(facts: Facts, ranks: Sequence[int]) -> Iterator[Row]:
    host = facts.ranks[ranks[0]].host
    entries = {gpu.identity: gpu.entry for r in ranks for gpu in facts.ranks[r].visible}
    if not entries:
        yield host, Text("none")
    for identity, entry in entries.items():
        users = [r for r in ranks if _is_on(facts.ranks[r], identity)]
        names = dict.fromkeys(facts.ranks[r].gpu_name for r in users)
        uuid = "" if identity == entry else identity[:_UUID_SHOWN]
        known = ", ".join(filter(None, [f"GPU {entry}", *names, uuid]))
        yield host, Text(f"{known}: {rank_list(users) if users else 'no rank'}")
        host = ""


def _is_on(rank: RankFacts, identity: str) -> bool:
    return rank.gpu is not None and rank.gpu.identity == identity


def _transport(facts: Facts) -> Text:
    if not facts.transport_obstacle:
        return Text("tensors travel by NCCL", GOOD)
    if len(facts.ranks) == 1:
        return Text("nothing travels: there is one rank")
    if not facts.any_gpu:
        return Text("nothing travels: no rank has a GPU")
    return Text(
        f"tensors travel by MPI through host memory, which is slow. The obstacle to NCCL: "
        f"{facts.transport_obstacle}.",
        BAD,
    )


def _compiled(facts: Facts) -> Iterator[Row]:
    found = _finding(facts, lambda rank: rank.foreign_calls)
    if found.style == BAD:
        yield "collectives", Text(f"do not work with jit_compile=True. {found}.", BAD)
        return
    version = f"XLA's foreign-call interface, version {found}"
    yield "collectives", Text(f"work with jit_compile=True ({version})", found.style or GOOD)
    if len(facts.ranks) > 1:
        yield "short ones", _short_ones(facts)


def _short_ones(facts: Facts) -> Text:
    if not facts.native_obstacle:
        return Text("by machine code, through the host's shared memory", GOOD)
    return Text(f"by Python and MPI: {facts.native_obstacle}.")


def _environment(facts: Facts) -> Iterator[Row]:
    names = sorted({name for rank in facts.ranks for name in rank.environment})
    if not names:
        yield "", Text("no variable that matters here is set")
    for name in names:
        yield name, _common(facts, partial(_value, name))


def _value(name: str, rank: RankFacts) -> str:
    return rank.environment.get(name, "not set") or "set, and empty"


def _how_path_went(outcomes: Sequence[Outcome]) -> Text | Table:
    """Context by context, or why the path was tried in none."""
    if len({outcome.obstacle for outcome in outcomes}) == 1 and outcomes[0].obstacle:
        return Text(f"not tried: {outcomes[0].obstacle}")
    return _grid([(each.context, _how_it_went(each)) for each in outcomes], _CONTEXT_WIDTH)


def _how_it_went(outcome: Outcome) -> Text:
    if not outcome.tried:
        return Text(f"not tried: {outcome.obstacle}", ODD)
    if outcome.right:
        assert outcome.seconds is not None
        return Text(f"right {_duration(outcome.seconds):>10}", GOOD)
    rank, said = next(iter(outcome.wrong.items()))
    others = [r for r in outcome.wrong if r != rank]
    also = f" ({rank_list(others)} went wrong, too)" if others else ""
    return Text(f"WRONG: rank {rank} {said}{also}", BAD)


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} µs"
    return f"{1e3 * seconds:.1f} ms" if seconds < 1.0 else f"{seconds:.1f} s"


def _verdict(outcomes: Sequence[Outcome]) -> Text:
    tried = [outcome for outcome in outcomes if outcome.tried]
    wrong = [outcome for outcome in tried if not outcome.right]
    if not tried:
        return Text("Nothing was tried. Try two ranks: mpirun -np 2 sciml-par info", ODD)
    if wrong:
        return Text(f"{len(wrong)} of {counted(len(tried), 'test')} went WRONG.", BAD)
    return Text(f"All {counted(len(tried), 'test')} that could be tried went right.", GOOD)


def _common(facts: Facts, answer: Callable[[RankFacts], str]) -> Text:
    """What the ranks say alike; or what each says, where they differ."""
    answers = facts.by_answer(answer)
    if len(answers) == 1:
        return Text(next(iter(answers)))
    each = "; ".join(f"{text} on {rank_list(ranks)}" for text, ranks in answers.items())
    return Text(f"differs: {each}", ODD)


def _finding(facts: Facts, of: Callable[[RankFacts], Finding]) -> Text:
    """A version; or, as something bad, why it is missing."""
    text = _common(facts, lambda rank: of(rank).obstacle or of(rank).version)
    return Text(str(text), BAD) if any(of(rank).obstacle for rank in facts.ranks) else text


def _hosts(facts: Facts) -> list[list[int]]:
    """The ranks of each host."""
    return list(facts.by_answer(lambda rank: f"{rank.host_number}").values())
