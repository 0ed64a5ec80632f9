"""The runner of all benchmarks: command line, cases, fresh processes, turns, tables and JSON files.

    python benchmarks/_runner.py PROGRAM.py FUNCTION '[ARGUMENTS]'

calls a function of a benchmark and prints what it returns as JSON, on rank 0; `start` does that.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
WARM_UPS = 2
"""The first round compiles and agrees, the second finds its memory."""

VENVS = (HERE / ".venvs", "folder of the peers' environments; PEER_JAX, … name others")

Row = dict[str, Any]
Columns = Mapping[str, str]
"""{heading: "key:format"}; a format has a width, and "<" where it aligns to the left."""

Candidate = Callable[[], float]
"""Does something, and returns how many microseconds one piece of it took."""


def parse(
    doc: str,
    arguments: Sequence[str] | None = None,
    *,
    names: Iterable[str] | None = None,
    **options: Any,
) -> Any:
    """Parse a command line.

    Parameters
    ----------
    doc : its first line describes the program.
    names : cases that may be named first; all by default.
    options : by name, (default, help) or the default alone: False for a flag, a list for names
        joined by commas, a type for an option without default, or the words of `add_argument`.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0], allow_abbrev=False)
    if names is not None:
        known = f"of {', '.join(names)}"
        parser.add_argument("names", nargs="*", metavar="NAME", help=f"{known} (default all)")
    for name, given in options.items():
        default, text = given if isinstance(given, tuple) else (given, "")
        if isinstance(default, dict):
            words = default
        elif default is False:
            words = {"action": "store_true"}
        elif isinstance(default, list):
            words = {"type": some_of(default), "default": default, "metavar": "NAME,…"}
        elif isinstance(default, type):
            words = {"type": default}
        else:
            words = {"type": type(default), "default": default}
            text += " (default %(default)s)"
        parser.add_argument(f"--{name.replace('_', '-')}", help=text, **words)
    found = parser.parse_args(arguments)
    if names is not None:
        chosen = {given: beginning_with(given, names) for given in found.names}
        if unknown := [given for given, them in chosen.items() if not them]:
            parser.error(f"expected names {known}; got {unknown[0]!r}")
        found.names = [name for given in found.names for name in chosen[given]] or list(names)
    return found


def beginning_with(given: str, names: Iterable[str]) -> list[str]:
    """Return the name that was given, or all that begin like this."""
    return [given] if given in names else [name for name in names if name.startswith(given)]


def some_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    def chosen(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(
                f"expected some of {','.join(known)}; got {unknown[0]!r}"
            )
        return names

    return chosen


def measure(
    cases: Iterable[Row],
    columns: Columns,
    run: Callable[..., Row | None],
    *,
    file: Path | None,
    again: bool = True,
) -> list[Row]:
    """Run the cases one after the other; show each row, and write all of them to the file, at once.

    Parameters
    ----------
    cases : keywords of `run`, which returns the other entries of the row, or None for no row.
    again : whether to run what is in the file as well. Cases may have an entry "with", of settings
        whose change makes them run again.
    """
    rows = stored(file)["runs"] if file and not again else []
    first, about = is_first(), circumstances()
    if first and columns:
        print(line(columns), flush=True)
    for case in cases:
        case = json.loads(json.dumps(case))
        key = {name: value for name, value in case.items() if name != "with"}
        known = [row for row in rows if key.items() <= row.items()]
        if any(case.items() <= row.items() for row in known):
            continue
        found = run(**case)
        if not first or found is None:
            continue
        rows[:] = [row for row in rows if row not in known] + [case | found]
        if columns:
            print(line(columns, rows[-1]), flush=True)
        if file:
            write_json(file, {"with": about, "runs": rows}, quiet=True)
    if first and file:
        print(f"written to {file}")
    return rows


def report(columns: Columns, rows: Sequence[Row], file: Path | None = None) -> None:
    print("\n".join([line(columns), *(line(columns, row) for row in rows)]), flush=True)
    if file:
        write_json(file, {"with": circumstances(), "runs": rows})


def line(columns: Columns, row: Row | None = None) -> str:
    cells = []
    for heading, column in columns.items():
        key, _, form = column.rpartition(":")
        value = heading if row is None else row.get(key)
        if value is None or isinstance(value, str):
            width = form.lstrip("<").partition(".")[0].rstrip("defg,")
            value, form = value or "", f"{'<' if '<' in form else '>'}{width}"
        cells.append(format(value, form))
    return "".join(cells).rstrip()


def stored(file: Path) -> Row:
    found: Row = json.loads(file.read_text()) if file.exists() else {"runs": []}
    return found


def write_json(path: Path, found: Any, *, quiet: bool = False) -> None:
    """Write what was found, and say where unless `quiet`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n")
    if not quiet:
        print(f"written to {path}")


def circumstances() -> Row:
    return {
        "versions": versions(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "command": sys.argv,
        "began": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def versions() -> str:
    names = {"numpy": "numpy", "scipy": "scipy", "skfem": "scikit-fem"}
    names |= {"tensorflow": "tensorflow", "keras": "keras"}
    known = (f"{name} {version(name)}" for module, name in names.items() if find_spec(module))
    return ", ".join([f"Python {platform.python_version()}", *known])


def is_first() -> bool:
    from sciml_par.parallel.startup.launcher_environment import launched_rank

    return launched_rank(os.environ) in (None, 0)


def start(
    function: Callable[..., Any],
    *arguments: Any,
    ranks: int | None = None,
    threads: int | None = None,
    quiet: bool = False,
    **environment: str,
) -> subprocess.Popen[str]:
    """Start a function of a benchmark in a fresh process, or under mpirun on some ranks."""
    launcher = [] if ranks is None else ["mpirun", "-np", str(ranks)]
    file = str(sys.modules[function.__module__].__file__)
    command = [*launcher, sys.executable, __file__, file, function.__name__, json.dumps(arguments)]
    limit = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    environment = os.environ | limit | environment
    said = subprocess.PIPE if quiet else None
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=said, text=True, env=environment
    )


def answer(process: subprocess.Popen[str], seconds: float = 1200.0) -> Any:
    """Return what the started function has returned; end this program if it has failed."""
    try:
        out, said = process.communicate(timeout=seconds)
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode:
        print(said or "", end="", file=sys.stderr)
        sys.exit(process.returncode)
    return json.loads(out.strip().splitlines()[-1])


def on_ranks(
    ranks: int | None, function: Callable[..., Any], *arguments: Any, **options: Any
) -> Any:
    """Call a function of a benchmark in fresh processes, and return what it returns on rank 0."""
    return answer(start(function, *arguments, ranks=ranks, **options))


def seconds_of(who: int = resource.RUSAGE_CHILDREN) -> float:
    """Return the processor's seconds of programs that this one has started and that have ended."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def slowest(times: Mapping[str, float]) -> dict[str, float]:
    """Return the slowest rank's times (collective)."""
    from sciml_par.parallel import current_world

    everyone = current_world().communicator.allgather_object(dict(times))
    return {name: max(each[name] for each in everyone) for name in times}


def in_turns(candidates: Mapping[str, Candidate], rounds: int) -> dict[str, float]:
    """Return the median microseconds of each candidate (collective)."""
    times = all_in_turns(candidates, rounds)
    return {name: statistics.median(each) for name, each in times.items()}


def all_in_turns(candidates: Mapping[str, Candidate], rounds: int) -> dict[str, list[float]]:
    """Return the microseconds of each candidate and round; ranks start together (collective)."""
    from mpi4py import MPI

    times: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(WARM_UPS + rounds):
        for name, candidate in candidates.items():
            MPI.COMM_WORLD.Barrier()
            microseconds = candidate()
            if number >= WARM_UPS:
                times[name].append(microseconds)
    return times


def repeated(function: Callable[[], Any], times: int, *, each: int = 1) -> Candidate:
    """Return a candidate that calls `function` `times` times; a call does `each` pieces of work."""

    def run() -> float:
        began = time.perf_counter()
        for _ in range(times):
            function()
        return 1e6 * (time.perf_counter() - began) / (times * each)

    return run


if __name__ == "__main__":
    program, name, words = sys.argv[1:]
    found = getattr(import_module(Path(program).stem), name)(*json.loads(words))
    if is_first():
        print(json.dumps(found), flush=True)
