"""Put random faults into jobs of two to four ranks, and check the promises about their end.

Each job is a program under mpirun with collectives (eager, in graphs, in compiled loops), with
Keras' fit, or with `train`. At a random moment one rank is killed or stopped for a while, raises,
leaves, disagrees with the others, or finds its disk full. The promises are:

- the job ends within 10 s of the fault, times the load of the machine (processes that run, by
  core) if that is above 1; a job that continues, or whose ranks can notice only at the end, has the
  time of a whole healthy job in addition;
- the exit code is not 0 if a rank has not done its work, and 0 if all could continue;
- a message names the rank or the cause;
- the last complete checkpoint can be read;
- no process or socket of the job is left.

    python benchmarks/faults.py --number 100 --seed 1
    python benchmarks/faults.py --seed 1 --index 17
    python benchmarks/faults.py --kinds SIGKILL,fork --ranks 4

prints every miss with the command that repeats it, and a table of kinds and outcomes, and writes
benchmarks/results/faults.json. The exit code is 1 if there was a miss.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _faults_job import (
    HANG,
    HELD,
    MISSES,
    NO_FAULT,
    Ended,
    Job,
    Span,
    can_forbid,
    misses,
    use_mounts_of_its_own,
)
from _faults_kinds import ENDS, KINDS, MODES, MOMENTS, Fault, draw
from _runner import RESULTS, parse, report, write_json

PREPARED_HELP = "start ranks with TensorFlow imported, unless the launcher must start them"
SECONDS_TO_END = 10.0
_SECONDS_TO_BEGIN = 120.0
_SLOW = 3.0
"""How many times as long as the healthy job one may take before its fault."""

_AT_THE_END = ("missing call", "lost message", "NaN")
"""Kinds whose job ends, but may first finish its work."""


class Trials:
    """Jobs with faults, one after the other.

    Parameters
    ----------
    python : what runs a program on a rank, if that need not be the launcher's own child.
    """

    def __init__(self, folder: Path, python: Sequence[str]) -> None:
        self._folder, self._python = folder, python
        self._spans: dict[str, dict[str, Span]] = {}
        self._healthy: dict[str, float] = {}
        self._checkpoint = b""
        self._number = 0

    def measure_healthy(self, mode: str, ranks: int) -> float:
        """Measure a job without a fault; end the program if the job fails."""
        fault = Fault("none", mode, "start", ranks, 0)
        job = self._job(fault)
        ended = job.run(_SECONDS_TO_BEGIN, _SECONDS_TO_BEGIN)
        wrong = misses(fault, ended, job.out)
        if wrong or ended.ranks_that("done") != set(range(ranks)):
            sys.exit(f"error: a job without a fault, {mode}: {wrong or 'not done'}\n{ended.said}")
        if mode == "train":
            self._checkpoint = (job.out / "checkpoint.npz").read_bytes()
        self._spans[mode], self._healthy[mode] = spans_of(ended), ended.seconds
        job.clear()
        return ended.seconds

    def run(self, fault: Fault) -> tuple[Ended, dict[str, str]]:
        """Run a job with this fault; return its end and the broken promises."""
        job = self._job(fault)
        healthy = self._healthy[fault.mode]
        if fault.kind == "truncated checkpoint":
            length = int(fault.fraction * len(self._checkpoint))
            (job.out / "checkpoint.npz").write_bytes(self._checkpoint[:length])
        goes_on = fault.of_kind.follows != ENDS or fault.kind in _AT_THE_END
        load = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # processes by core
        after = load * (SECONDS_TO_END + (healthy if goes_on else 0.0))
        ended = job.run(load * _SLOW * (healthy + SECONDS_TO_END), after)
        wrong = misses(fault, ended, job.out)
        job.clear()
        return ended, wrong

    def _job(self, fault: Fault) -> Job:
        self._number += 1
        folder = self._folder / f"job-{self._number}"
        python = [sys.executable] if fault.needs_real_children else self._python
        return Job(fault, folder, python, self._spans.get(fault.mode, {}))


def prepared_python() -> list[str]:
    """Return a command that runs a program in a copy of a process with TensorFlow imported."""
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "integration"))
    from launch import prepared_python

    return prepared_python()


def spans_of(ended: Ended) -> dict[str, Span]:
    first: dict[str, float] = {}
    for t, what, _ in ended.events:
        first.setdefault(what.partition("-")[0], t)
    order = ["start", *(m for m in MOMENTS[1:] if m in first)]
    begins = {**{m: first[m] for m in order}, "start": 0.0}
    ends = {"start": first["begun"], "end": ended.seconds}
    for moment in order[1:-1]:
        ends[moment] = min([t for m, t in begins.items() if t > begins[moment]])
    if "training" in ends:  # files are written meanwhile
        ends["training"] = begins.get("saving", begins["end"])
    return {m: Span(begins[m], ends[m] - begins[m]) for m in order}


def summaries(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row of outcomes for each kind, and one for all."""
    rows = []
    for kind in [*(k for k in KINDS if any(r["fault"]["kind"] == k for r in results)), "all"]:
        chosen = [r for r in results if kind in ("all", r["fault"]["kind"])]
        counts = Counter(name for r in chosen for name in r["outcomes"])
        times = [r["after"] for r in chosen if r["after"] is not None and HANG not in r["outcomes"]]
        rows.append(
            {"kind": kind, "jobs": len(chosen), **counts, "after": max(times, default=None)}
        )
    return rows


def main() -> int:
    options = parse(
        __doc__,
        number=(20, "faults to run"),
        seed=0,
        index=(int, "run only this fault of the seed"),
        first=(0, "first one"),
        ranks="2,3,4",
        modes=",".join(MODES),
        kinds=(str, f"of {', '.join(KINDS)}; default all"),
        json=RESULTS / "faults.json",
        prepared=(False, PREPARED_HELP),
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ending the job as well
    kinds = chosen_kinds(options.kinds, use_mounts_of_its_own())
    ranks = [int(each) for each in options.ranks.split(",")]
    modes = [mode for mode in MODES if mode in options.modes.split(",")]
    numbers = range(options.first, options.first + options.number)
    indices = numbers if options.index is None else [options.index]
    faults = {index: draw(options.seed, index, kinds, ranks, modes) for index in indices}
    again = f"--seed {options.seed} --ranks {options.ranks} --modes {options.modes}"
    again += f" --kinds '{options.kinds}'" if options.kinds else ""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        trials = Trials(Path(folder), prepared_python() if options.prepared else [sys.executable])
        modes = [mode for mode in MODES if any(f.mode == mode for f in faults.values())]
        healthy = {mode: trials.measure_healthy(mode, max(ranks)) for mode in modes}
        said = ", ".join(f"{mode} {seconds:.1f} s" for mode, seconds in healthy.items())
        print(f"without a fault, {max(ranks)} ranks: {said}", flush=True)
        results = []
        for index, fault in faults.items():
            results.append(tried(trials, fault, index))
            if results[-1]["misses"]:
                print(f"    again: python {sys.argv[0]} --index {index} {again}", flush=True)
            found = {"seed": options.seed, "prepared": options.prepared, "healthy": healthy}
            write_json(options.json, found | {"results": results}, quiet=True)
    print()
    columns = {"kind": "kind:<26", "jobs": "jobs:6", "slowest s": "after:11.1f"}
    report(columns | {name: f"{name}:17" for name in (HELD, NO_FAULT, *MISSES)}, summaries(results))
    print(f"written to {options.json}")
    return int(any(r["misses"] for r in results))


def tried(trials: Trials, fault: Fault, index: int) -> dict[str, Any]:
    ended, wrong = trials.run(fault)
    outcomes = list(wrong) or [NO_FAULT if ended.fault_at is None else HELD]
    if fault.kind == "truncated checkpoint" and not wrong:
        outcomes = [HELD]  # it was there from the beginning
    after = None if ended.fault_at is None else ended.seconds - ended.fault_at
    print(f"{index:4} {', '.join(outcomes):12} {fault}", flush=True)
    for name, text in wrong.items():
        print(f"    {MISSES[name]}: {text}", flush=True)
    if wrong:
        print("".join(f"    | {line}\n" for line in ended.said.splitlines()[-40:]), end="")
    return {
        "index": index,
        "fault": dataclasses.asdict(fault),
        "outcomes": outcomes,
        "misses": wrong,
        "code": ended.code,
        "after": after,
        "seconds": ended.seconds,
        "said": ended.said[-4000:] if wrong else "",
    }


def chosen_kinds(text: str | None, isolated: bool) -> list[str]:
    kinds = [each.strip() for each in text.split(",")] if text else list(KINDS)
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        sys.exit(f"error: expected kinds of {', '.join(KINDS)}; got {unknown[0]!r}")
    if not isolated:
        print("note: a small disk cannot be mounted here")
        kinds = [
            k for k in kinds if k != "full disk" and (k != "unwritable folder" or can_forbid())
        ]
    return kinds


if __name__ == "__main__":
    sys.exit(main())
