"""Command lines of all programs, up to the point where they would train or measure."""

from __future__ import annotations

import argparse
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
    for name in ("pi", "digits", "resnet34_throughput", "scaling"):
        module = load(name)
        found.append(_target(name, _measuring(module), module.make_parser(), there))
    for name in ("function_approximation", "pinn_poisson"):
        parser = programs.make_training_parser("", program=name, points={"data": 8})
        found.append(_target(name, _training(load(name)), parser, there, share=3.0))
    solve = programs.make_solving_parser("", program="solve")
    found.append(_target("solve", _training(load("solve")), solve, there, share=3.0, names=True))
    found.append(_gallery(load("gallery"), there))
    found.append(_trained(load("function_approximation"), there))
    found.append(_target("sciml-par", _info, info_main.make_parser(), there, words=("info",)))
    return found


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"fuzzed_{name}", SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _target(
    name: str,
    run: Callable[[], Any],
    parser: argparse.ArgumentParser,
    there: Path,
    *,
    share: float = 2.0,
    words: tuple[str, ...] = (),
    names: bool = False,
) -> Target:
    def call(line: list[str]) -> None:
        before = contents(there)
        with mock.patch.object(sys, "argv", [f"{name}.py", *words, *line]):
            try:
                programs.run(run, program=name)
            finally:  # however it ended
                if contents(there) != before:
                    raise AssertionError("what was there is not as it was")

    drawn = command_lines(parser, names=names).map(lambda line: ([line], {}))
    return Target(f"{name}.py", call, drawn, share)


@st.composite
def command_lines(draw: Any, parser: argparse.ArgumentParser, *, names: bool = False) -> list[str]:
    """Draw options of a parser, most with valid values."""
    from sciml_par.problems import catalogue_entries

    line: list[str] = []
    if names:
        line.append(draw(st.sampled_from([*catalogue_entries(), "nothing", "--list"])))
    actions = [a for a in parser._actions if a.option_strings]
    for action in draw(st.lists(st.sampled_from(actions), max_size=5)):
        if action.dest == "overwrite":
            continue  # what is there may go then
        option = draw(st.sampled_from(action.option_strings))
        if action.nargs == 0:
            line.append(option)
            continue
        right = st.sampled_from([str(choice) for choice in action.choices or ("1", "2", "7")])
        word = draw(st.one_of(right, right, right, WORDS))
        line += [f"{option}={word}"] if draw(st.booleans()) else [option, word]
    if draw(st.integers(0, 9)) == 0:
        line.insert(draw(st.integers(0, len(line))), draw(WORDS))
    return line


def _reached(*_: Any, **__: Any) -> Any:
    raise Reached


def _measuring(module: ModuleType) -> Callable[[], Any]:
    def run() -> Any:
        with (
            mock.patch.object(module, "measure", _reached),
            mock.patch("sciml_par.programs.scaling_study.launch", _reached),
        ):
            return module.main()

    return run


def _training(module: ModuleType) -> Callable[[], Any]:
    def run() -> Any:
        solving = "sciml_par.training.solving.by_polynomials.climb_by_polynomials"
        with mock.patch("sciml_par.training.once.run", _reached), mock.patch(solving, _reached):
            return module.main()

    return run


def _gallery(module: ModuleType, there: Path) -> Target:
    module.solve = _reached
    module.PICTURES = there.parent / "pictures"
    parser = argparse.ArgumentParser()
    for option in ("--again", "--runs"):
        parser.add_argument(option, **({"action": "store_true"} if option == "--again" else {}))
    return _target("gallery", module.main, parser, there, names=True, share=1.0)


def _trained(module: ModuleType, there: Path) -> Target:
    """Draw programs that train for two steps, into folders that exist or not."""
    short = ["--steps", "2", "--points", "5", "--width", "3", "--no-plots"]
    drawn = st.lists(
        st.sampled_from(["--output=there", "--output=fresh", "--output=there/file", "--resume"]),
        max_size=2,
    ).map(lambda more: ([[*short, *more]], {}))
    parser = programs.make_training_parser("", program="trained", points={"data": 8})
    target = _target("trained", module.main, parser, there)
    return Target("trained", target.call, drawn, 0.1)


def _info() -> Any:
    with mock.patch("sciml_par.info.main.gather_facts", _reached):
        info_main.main()


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
