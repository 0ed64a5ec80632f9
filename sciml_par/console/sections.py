"""The facts in sentences, with what is good and what is bad about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sciml_par.console.facts import Facts, Finding, RankFacts
from sciml_par.console.page import BAD, GOOD, ODD, PLAIN, Row, Section
from sciml_par.console.self_test import COUNT, Outcome
from sciml_par.console.words import counted, duration, ranks_in_short

_CONTEXT_WIDTH = 13
_UUID_SHOWN = len("GPU-12345678")


def facts_sections(facts: Facts) -> list[Section]:
    """Everything but the self-test (local)."""
    return [
        Section("Versions", list(_versions(facts))),
        Section("MPI", list(_mpi(facts))),
        Section("Ranks", list(_ranks(facts))),
        Section("GPUs", list(_gpus(facts))),
        Section("Compiled functions", [_compiled(facts)]),
        Section("Environment", list(_environment(facts))),
    ]


def outcome_sections(outcomes: Sequence[Outcome]) -> list[Section]:
    """The self-test and, as the last line, what it comes to (local)."""
    rows = [row for path in _by_path(outcomes) for row in _path_rows(path)]
    title = f"Self-test: allreduce of {COUNT:,} float32, median time of a call"
    return [Section(title, rows), _verdict(outcomes)]


def _versions(facts: Facts) -> Iterator[Row]:
    for name in facts.ranks[0].versions:
        yield _common(facts, name, partial(_version, name))


def _version(name: str, rank: RankFacts) -> str:
    return rank.versions[name]


def _mpi(facts: Facts) -> Iterator[Row]:
    yield _common(facts, "library", lambda rank: rank.mpi_library)
    yield _common(facts, "standard", lambda rank: rank.mpi_standard)
    for level, ranks in facts.by_answer(lambda rank: rank.thread_level).items():
        if level == "MULTIPLE":
            yield Row("thread level", level)
        else:
            yield Row(
                "thread level",
                f"{level} on {ranks_in_short(ranks)}, not MULTIPLE: there is no watchdog, so ranks "
                f"that wait for each other in vain are not noticed.",
                BAD,
            )


def _ranks(facts: Facts) -> Iterator[Row]:
    hosts = _hosts(facts)
    n = len(facts.ranks)
    yield Row("in all", f"{counted(n, 'rank')} on {counted(len(hosts), 'host')}")
    if facts.launched_apart:
        yield Row(
            "",
            f"The launcher has started {facts.ranks[0].launched} processes, and each is alone: "
            f"mpirun belongs to another MPI than the library above.",
            BAD,
        )
    for ranks in hosts:
        yield _host(facts, ranks)


def _host(facts: Facts, ranks: Sequence[int]) -> Row:
    here = [facts.ranks[r] for r in ranks]
    least, most = (end(rank.threads for rank in here) for end in (min, max))
    threads = counted(most, "thread") if least == most else f"{least} to {most} threads"
    cores = len({core for rank in here for core in rank.cores})
    each = " each" if len(here) > 1 else ""
    text = f"{ranks_in_short(ranks)}: {threads}{each}, on {counted(cores, 'core')}"
    if sum(rank.threads for rank in here) > cores:
        return Row(here[0].host, f"{text}: too many threads, so collectives will be slow", ODD)
    return Row(here[0].host, text)


def _gpus(facts: Facts) -> Iterator[Row]:
    for ranks in _hosts(facts):
        yield from _gpus_of_host(facts, ranks)
    yield from _tensorflow(facts)
    yield _tensor_float_32(facts)
    nccl = _finding(facts, "NCCL", lambda rank: rank.nccl)
    if facts.any_gpu or nccl.mood == PLAIN:
        yield nccl
    else:
        yield Row("NCCL", f"none, and without a GPU none is needed. {nccl.text}.")
    yield _transport(facts)


def _tensorflow(facts: Facts) -> Iterator[Row]:
    blind = facts.ranks_where(lambda rank: rank.gpu is not None and not rank.tensorflow_on_gpu)
    loose = facts.ranks_where(lambda rank: rank.gpu is None and rank.tensorflow_on_gpu)
    seeing = facts.ranks_where(lambda rank: rank.gpu is not None and rank.tensorflow_on_gpu)
    if seeing:
        yield Row("TensorFlow", f"computes on the GPU on {ranks_in_short(seeing)}", GOOD)
    if blind:
        yield Row(
            "TensorFlow",
            f"finds no GPU on {ranks_in_short(blind)} and computes on the CPU; "
            f"pip install 'sciml-par[gpu]' brings one that does.",
            BAD,
        )
    if loose:
        yield Row(
            "TensorFlow",
            f"computes on a GPU on {ranks_in_short(loose)} that was not given to the rank, since "
            f"/proc/driver/nvidia lists none; set CUDA_VISIBLE_DEVICES to the GPUs of the host.",
            BAD,
        )


def _tensor_float_32(facts: Facts) -> Row:
    row = _common(facts, "TensorFloat-32", lambda rank: "on" if rank.tensor_float_32 else "off")
    if not any(rank.tensor_float_32 for rank in facts.ranks):
        return row
    return Row(row.label, f"{row.text}: float32 matrices are multiplied with ten bits", ODD)


def _gpus_of_host(facts: Facts, ranks: Sequence[int]) -> Iterator[Row]:
    host = facts.ranks[ranks[0]].host
    entries = {gpu.identity: gpu.entry for r in ranks for gpu in facts.ranks[r].visible}
    if not entries:
        yield Row(host, "none")
    for identity, entry in entries.items():
        users = [r for r in ranks if _is_on(facts.ranks[r], identity)]
        names = dict.fromkeys(facts.ranks[r].gpu_name for r in users)
        uuid = "" if identity == entry else identity[:_UUID_SHOWN]
        known = ", ".join(filter(None, [f"GPU {entry}", *names, uuid]))
        yield Row(host, f"{known}: {ranks_in_short(users) if users else 'no rank'}")
        host = ""


def _is_on(rank: RankFacts, identity: str) -> bool:
    return rank.gpu is not None and rank.gpu.identity == identity


def _transport(facts: Facts) -> Row:
    if not facts.transport_obstacle:
        return Row("between GPUs", "tensors travel by NCCL", GOOD)
    if len(facts.ranks) == 1:
        return Row("between GPUs", "nothing travels: there is one rank")
    if not facts.any_gpu:
        return Row("between GPUs", "nothing travels: no rank has a GPU")
    return Row(
        "between GPUs",
        f"tensors travel by MPI through host memory, which is slow. The obstacle to NCCL: "
        f"{facts.transport_obstacle}.",
        BAD,
    )


def _compiled(facts: Facts) -> Row:
    row = _finding(facts, "collectives", lambda rank: rank.foreign_calls)
    if row.mood == BAD:
        return Row(row.label, f"do not work with jit_compile=True. {row.text}.", BAD)
    version = f"XLA's foreign-call interface, version {row.text}"
    return Row(row.label, f"work with jit_compile=True ({version})", row.mood or GOOD)


def _environment(facts: Facts) -> Iterator[Row]:
    names = sorted({name for rank in facts.ranks for name in rank.environment})
    if not names:
        yield Row("", "no variable that matters here is set")
    for name in names:
        yield _common(facts, name, partial(_value, name))


def _value(name: str, rank: RankFacts) -> str:
    return rank.environment.get(name, "not set") or "set, and empty"


def _path_rows(outcomes: Sequence[Outcome]) -> Iterator[Row]:
    label = outcomes[0].path
    if len({outcome.obstacle for outcome in outcomes}) == 1 and outcomes[0].obstacle:
        yield Row(label, f"not tried: {outcomes[0].obstacle}")
        return
    for outcome in outcomes:
        text, mood = _how_it_went(outcome)
        yield Row(label, f"{outcome.context:{_CONTEXT_WIDTH}}{text}", mood, hang=_CONTEXT_WIDTH)
        label = ""


def _how_it_went(outcome: Outcome) -> tuple[str, str]:
    if not outcome.tried:
        return f"not tried: {outcome.obstacle}", ODD
    if outcome.right:
        assert outcome.seconds is not None
        return f"right {duration(outcome.seconds):>10}", GOOD
    rank, said = next(iter(outcome.wrong.items()))
    others = [r for r in outcome.wrong if r != rank]
    also = f" ({ranks_in_short(others)} went wrong, too)" if others else ""
    return f"WRONG: rank {rank} {said}{also}", BAD


def _verdict(outcomes: Sequence[Outcome]) -> Section:
    tried = [outcome for outcome in outcomes if outcome.tried]
    wrong = [outcome for outcome in tried if not outcome.right]
    if not tried:
        return Section("Nothing was tried. Try two ranks: mpirun -np 2 sciml-par info", [], ODD)
    if wrong:
        return Section(f"{len(wrong)} of {counted(len(tried), 'test')} went WRONG.", [], BAD)
    return Section(f"All {counted(len(tried), 'test')} that could be tried went right.", [], GOOD)


def _common(facts: Facts, label: str, answer: Callable[[RankFacts], str]) -> Row:
    """What the ranks say alike; or what each says, where they differ."""
    answers = facts.by_answer(answer)
    if len(answers) == 1:
        return Row(label, next(iter(answers)))
    each = "; ".join(f"{text} on {ranks_in_short(ranks)}" for text, ranks in answers.items())
    return Row(label, f"differs: {each}", ODD)


def _finding(facts: Facts, label: str, of: Callable[[RankFacts], Finding]) -> Row:
    """A version; or, as something bad, why it is missing."""
    row = _common(facts, label, lambda rank: of(rank).obstacle or of(rank).version)
    missing = any(of(rank).obstacle for rank in facts.ranks)
    return Row(label, row.text, BAD) if missing else row


def _hosts(facts: Facts) -> list[list[int]]:
    """The ranks of each host."""
    return list(facts.by_answer(lambda rank: f"{rank.host_number}").values())


def _by_path(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.path, []).append(outcome)
    return list(found.values())
