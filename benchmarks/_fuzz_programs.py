"""Command lines of all programs, up to the point where they would train or measure."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from fuzz import Reached, Target
from hypothesis import strategies as st

from sciml_par import programs
from sciml_par.info import main as info_main

TRAINS = programs.TrainingOptions.with_points(data=8)
SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
WORDS = st.sampled_from(
    ["0", "1", "2", "3", "-1", "1.5", "1e-3", "nan", "inf", "", " ", "x", "1,2", "1,,2", "0,1",
     "8:00:00", ":", "a=1,2", "=1,2", "é", "--", "-", "/dev/null/x", "there", "there/file",
     "new", "/proc", "99999999999999999999", "1" * 5000, "\x00", "auto", "\ud800", "new\udcff"]
)  # fmt: skip


def targets(folder: Path) -> list[Target]:
    """Return all programs; they find a folder `there` with results of another run."""
    there = folder / "there"
    there.mkdir()
    (there / "results.json").write_text("{}", encoding="utf-8")
    (there / "file").write_text("text", encoding="utf-8")
    found = []

    def add(name: str, main: Any, options: type[programs.Options], **how: Any) -> None:
        found.append(_target(name, main, options, there, **how))

    for name in ("pi", "digits", "resnet34_throughput", "scaling"):
        module = load(name)
        module.measure = _reached
        add(name, _until(module.main, "programs.scaling_study.launch"), module.Options)
    steps = ("training.once.run", "training.solving.by_polynomials.climb_by_polynomials")
    for name in ("function_approximation", "pinn_poisson"):
        module = load(name)
        add(name, _until(module.main, *steps), module.Options, share=3.0)
    solve = load("solve")
    add("solve", _until(solve.main, *steps), solve.Options, share=3.0, names=True)
    gallery = load("gallery")
    gallery.solve, gallery.PICTURES = _reached, folder / "pictures"
    add("gallery", gallery.main, gallery.Options, names=True, share=1.0)
    until_facts = _until(info_main.main, "info.main.gather_facts")
    add("sciml-par", until_facts, info_main.InfoOptions, words=("info",))
    # Programs that train for two steps, into folders that exist or not.
    short = ["--steps", "2", "--points", "5", "--width", "3", "--no-plots"]
    several = ["--output=there", "--output=fresh", "--output=there/file", "--resume"]
    drawn = st.lists(st.sampled_from(several), max_size=2).map(lambda m: ([[*short, *m]], {}))
    trained = _target("trained", load("function_approximation").main, TRAINS, there)
    return [*found, Target("trained", trained.call, drawn, 0.1)]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"fuzzed_{name}", SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _target(
    name: str, run: Callable[[], Any], options: type[programs.Options], there: Path, *,
    share: float = 2.0, words: tuple[str, ...] = (), names: bool = False,
) -> Target:  # fmt: skip
    """Return a program with drawn words, which must leave the folder `there` as it was."""

    def call(line: list[str]) -> None:
        before = contents(there)
        with mock.patch.object(sys, "argv", [f"{name}.py", *words, *line]):
            try:
                programs.run(run, program=name)
            finally:  # however it ended
                if contents(there) != before:
                    raise AssertionError("what was there is not as it was")

    drawn = command_lines(options, names=names).map(lambda line: ([line], {}))
    return Target(f"{name}.py", call, drawn, share)


@st.composite
def command_lines(draw: Any, options: type[programs.Options], *, names: bool = False) -> list[str]:
    """Draw options, most with valid values."""
    from sciml_par.problems import catalogue_entries

    line: list[str] = []
    if names:
        line.append(draw(st.sampled_from([*catalogue_entries(), "nothing", "--list"])))
    known = options.app("", "program").assemble_argument_collection(parse_docstring=False)
    named = [argument for argument in known if argument.name.startswith("--")]
    for argument in draw(st.lists(st.sampled_from(named), max_size=5)):
        if argument.name == "--overwrite":
            continue  # what is there may go then
        option = draw(st.sampled_from(argument.names))
        if argument.hint is bool:
            line.append(option)
            continue
        right = st.sampled_from(argument.get_choices() or ("1", "2", "7"))
        word = draw(st.one_of(right, right, right, WORDS))
        line += [f"{option}={word}"] if draw(st.booleans()) else [option, word]
    if draw(st.integers(0, 9)) == 0:
        line.insert(draw(st.integers(0, len(line))), draw(WORDS))
    return line


def _reached(*_: Any, **__: Any) -> Any:
    raise Reached


def _until(main: Callable[[], Any], *places: str) -> Callable[[], Any]:
    """Return a program that ends where it would go on to one of these places."""

    def run() -> Any:
        with contextlib.ExitStack() as stack:
            for place in places:
                stack.enter_context(mock.patch(f"sciml_par.{place}", _reached))
            return main()

    return run


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
