"""The pages: their Python runs, their commands exist, their reference is complete."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import runpy
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import selection
from launch import ROOT, launch

from sciml_par.info.main import InfoOptions

README = ROOT / "README.md"
FIRST = ROOT / "docs" / "first-solution.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
FILES = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
ENVIRONMENT = (ROOT / "docs" / "info.md").read_text(encoding="utf-8")
STUBS = [ROOT / "sciml_par" / "__init__.pyi", *sorted((ROOT / "sciml_par").glob("*/__init__.pyi"))]

RUN = "<!-- run: mpirun -np 2 -->"
REPEATED = re.compile(r"<!-- repeated: (\S+) -->")
"""Before a block that shows what a file of tests shows as well: only --all runs it."""

SKIP = re.compile(r"<!-- skip: \S.* -->")
ACCURATE = 1e-2
TOLERANCE = 1e-6  # that of the program in the README


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes
    ----------
    first : the number of its first line in the page, counted from 0.
    remark : the line before the fence, where the page says how the block is to be treated.
    """

    language: str
    lines: list[str]
    first: int
    remark: str


def blocks_of(page: Path) -> Iterator[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        if lines[at].startswith("```"):
            end = lines.index("```", at + 1)
            yield Block(lines[at][3:], lines[at + 1 : end], at + 1, lines[at - 1])
            at = end
        at += 1


def python_of(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.language == "python"]


def program_of(page: Path, *, whole: bool) -> str:
    """Return all Python of a page, in order, on the page's line numbers.

    Unless the `whole` page is asked for, repeated blocks have their imports alone.
    """
    lines: list[str] = []
    for block in python_of(page):
        code = "\n".join(block.lines)
        if REPEATED.fullmatch(block.remark) and not whole:
            code = ast.unparse([n for n in ast.parse(code).body if hasattr(n, "names")])
        lines += [""] * (block.first - len(lines)) + code.splitlines()
    return "\n".join(lines) + "\n"


LONG = {  # more than 5 s each
    "choosing-an-optimizer.md",
    "conditions.md",
    "first-solution.md",
    "inverse-problems.md",
    "least-squares.md",
    "points.md",
    "time-dependent.md",
    "tolerance.md",
    "tutorial-data-parallel.md",
    "tutorial-ensembles.md",
    "tutorial-collectives.md",
    "tutorial-own-equation.md",
    "uncertainty.md",
}
PROGRAMS = [
    pytest.param(page, id=page.name, marks=[pytest.mark.long] if page.name in LONG else [])
    for page in PAGES
    if python_of(page)
]


@pytest.mark.launches
@pytest.mark.parametrize("page", PROGRAMS)
def test_the_python_of_a_page_runs(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Run it under mpirun if the page says so. Other tests show that one rank does the same.

    A tutorial may take more than 10 s: it trains until what it shows is accurate.
    """
    marked = any(block.remark == RUN for block in python_of(page))
    program = program_of(page, whole=request.config.getoption(selection.ALL))
    run_page(program, ranks=2 if marked else None, folder=tmp_path)
    if page == FIRST:
        check_example(tmp_path)
    if page == README:
        results = json.loads((tmp_path / "runs" / "reaction" / "results.json").read_text())
        assert results["members"][0]["error"]["relative"] <= TOLERANCE


def run_page(program: str, *, ranks: int | None, folder: Path) -> None:
    (folder / "page.py").write_text(program, encoding="utf-8")
    launch(ranks, "page.py", folder=folder, threads=1).succeeded()


def check_example(folder: Path) -> None:
    """Check what the first solution has left: accurate, drawn, and documented."""
    saved = folder / "runs" / "advection-diffusion"
    results = json.loads((saved / "results.json").read_text())
    (member,) = results["members"]
    assert member["relative_l2_error"] <= ACCURATE
    assert [key for key in keys_of(results) if f"`{key}`" not in FILES] == []
    with np.load(saved / "predictions.npz") as file:
        assert [name for name in file if f"`{name}`" not in FILES] == []
    assert (saved / "prediction.png").stat().st_size > 0


def keys_of(results: dict[str, Any]) -> Iterator[str]:
    """Yield every name in results.json except those of options, packages and repeated ranks."""
    yield from results
    yield from results["members"][0]
    yield from results["members"][0]["per_rank"][0]


COMMANDS = [
    pytest.param(page, block.first + i + 1, line, id=f"{page.name}:{block.first + i + 1}")
    for page in PAGES
    for block in blocks_of(page)
    if block.language in ("bash", "console") and not SKIP.fullmatch(block.remark)
    for i, line in enumerate(block.lines)
    if line.strip()
]


@pytest.mark.parametrize(("page", "number", "line"), COMMANDS)
def test_a_command_can_be_given(page: Path, number: int, line: str) -> None:
    words = shlex.split(line.removeprefix("$ "), comments=True)
    while words and re.fullmatch(r"[A-Z][A-Z0-9_]*=.*", words[0]):
        del words[0]
    if words[0] == "make":
        check_targets([word for word in words[1:] if "=" not in word])
        return
    if "sciml-par" in words:
        check_command(words[words.index("sciml-par") + 1 :])
        return
    assert words[0] in ("python", "mpirun"), f"{page.name}:{number}: what is {words[0]!r}?"
    arguments = words[words.index("python") + 1 :]
    if arguments[:2] == ["-m", "pytest"]:
        paths = [word for word in arguments[2:] if "/" in word]
        assert all((ROOT / path).exists() for path in paths)
    elif arguments[:2] == ["-m", "sciml_par.info"]:
        check_command(["info", *arguments[2:]])
    elif arguments[0].startswith("scripts/"):
        check_script(arguments[0], arguments[1:])
    elif "/" in arguments[0]:
        assert (ROOT / arguments[0]).is_file()
    else:
        named = [block.lines[0] for block in python_of(page)]
        assert f"# {arguments[0]}" in named, f"no block of {page.name} begins # {arguments[0]}"


def check_targets(targets: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in targets:
        rule = re.sub(r"^test-mpi-\d+$", "test-mpi", target)
        assert re.search(rf"^{re.escape(rule)}:", makefile, re.MULTILINE), target


def check_command(options: list[str]) -> None:
    InfoOptions.parse("", arguments=options)  # a wrong option is an error


def check_script(script: str, options: list[str]) -> None:
    assert (ROOT / script).is_file()
    program = runpy.run_path(str(ROOT / script))
    program["Options"].parse("", arguments=options, program="program")


MADE = runpy.run_path(str(ROOT / "docs" / "hooks" / "made_pages.py"))
"""What makes the pages of the site that are in no folder."""


def test_the_site_shows_every_page() -> None:
    configuration = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    shown = re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", configuration, re.MULTILINE)
    files = [page.name for page in (ROOT / "docs").glob("*.md")]
    made = [*MADE["FILES"], *(f"api/{name}.md" for name, _ in MADE["api_pages"]())]
    assert sorted(shown) == sorted([*files, *made])


def test_the_site_shows_the_docstring_of_every_public_name() -> None:
    """Find each once, at its definition, under the name by which it is imported."""
    text = "".join(page for _, page in MADE["api_pages"]())
    shown = re.findall(r"^::: (\S+)\n +options:\n +heading: (\S+)$", text, re.MULTILINE)
    assert len(dict(shown)) == len(shown)
    for stub in STUBS:
        package = ".".join(stub.relative_to(ROOT).parent.parts)
        module = importlib.import_module(package)
        for name in names_in(stub):
            value = getattr(module, name)
            if inspect.isclass(value) and value.__module__.startswith("sciml_par."):
                assert f"{value.__module__}.{value.__qualname__}" in dict(shown), name
            elif not inspect.ismodule(value):
                assert name in {heading for _, heading in shown}, name
    for path, name in shown:
        module = importlib.import_module(path.rpartition(".")[0])
        assert hasattr(module, path.rpartition(".")[2]), name


LINKS = [
    pytest.param(page, target, id=f"{page.name}-{target}")
    for page in PAGES
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    if "://" not in target
]


@pytest.mark.parametrize(("page", "target"), LINKS)
def test_a_link_leads_somewhere(page: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    found = page.parent / path if path else page
    assert found.is_file()
    if anchor:
        assert anchor in [anchor_of(line) for line in headings_of(found)]
    if found.suffix == ".png":
        assert found.stat().st_size < 150_000


def test_every_page_of_the_route_leads_to_the_next() -> None:
    text = (ROOT / "docs" / "index.md").read_text()
    route = text.partition("## The route")[2].partition("\n## ")[0]
    pages = re.findall(r"\]\(([a-z-]+\.md)\)", route)
    assert len(pages) > 15
    for page, after in pairwise(pages):
        last = (ROOT / "docs" / page).read_text().rpartition("Next: ")[2]
        assert f"]({after})" in last.split("\n")[0], page


def headings_of(page: Path) -> list[str]:
    lines = page.read_text(encoding="utf-8").splitlines()
    return [line.lstrip("#").strip() for line in lines if line.startswith("#")]


def anchor_of(heading: str) -> str:
    """Return the anchor that Markdown sites make of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_tests_of_repeated_blocks_exist() -> None:
    named = [m[1] for page in PAGES for b in python_of(page) if (m := REPEATED.fullmatch(b.remark))]
    assert named and all((ROOT / path).is_file() for path in named)


DESIGN = [ROOT / "docs" / "architecture.md", *sorted((ROOT / "docs").glob("decisions*.md"))]
SOURCES = [path.as_posix() for path in ROOT.rglob("*.py") if ".venv" not in path.parts]


@pytest.mark.parametrize("page", DESIGN, ids=lambda page: page.name)
def test_the_files_that_a_page_on_the_design_names_exist(page: Path) -> None:
    named = re.findall(r"`([\w/]+\.py)`", page.read_text(encoding="utf-8"))
    assert named
    assert [n for n in named if not any(each.endswith(f"/{n}") for each in SOURCES)] == []


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.parent.name)
def test_the_reference_lists_every_public_name_once(stub: Path) -> None:
    """Their signatures are on the site's pages of the API, which are made of the docstrings."""
    package = ".".join(stub.relative_to(ROOT).parent.parts)
    assert sorted(entries_of(package)) == sorted(names_in(stub))


def test_the_reference_lists_every_error() -> None:
    errors = importlib.import_module("sciml_par.errors")
    classes = [name for name, value in vars(errors).items() if inspect.isclass(value)]
    assert sorted(entries_of("sciml_par.errors")) == sorted(classes)


def test_the_pages_list_every_environment_variable_of_the_code() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "sciml_par").rglob("*.py"))
    own = set(re.findall(r"SCIML_PAR_[A-Z0-9_]+", code))
    assert own and own == set(re.findall(r"`(SCIML_PAR_[A-Z0-9_]+)`", ENVIRONMENT))


def names_in(stub: Path) -> list[str]:
    tree = ast.parse(stub.read_text())
    return [alias.name for node in tree.body for alias in getattr(node, "names", [])]


def entries_of(package: str) -> list[str]:
    """Return the names in the first cells of the table in the reference's section on `package`."""
    section = REFERENCE.partition(f"\n## `{package}`\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+`) \|", section, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
