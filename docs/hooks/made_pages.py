"""The pages of the site that are in no folder: the API, and files of the root of the repository.

The API has a page for each package, with the docstring of every public name.
The names are those of the packages' stubs, `__init__.pyi`, so that no page names one that is gone
or leaves out one that is new. Each is shown once: where several packages export it, on the page of
the first, which the others link to.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = {
    "problems": ["sciml_par.problems"],
    "networks": ["sciml_par.networks"],
    "results": ["sciml_par.results"],
    "training": ["sciml_par.training"],
    "families": ["sciml_par.families"],
    "evaluation": ["sciml_par.evaluation"],
    "parallel": ["sciml_par.parallel"],
    "programs": ["sciml_par.programs"],
    "horovod": [
        "sciml_par.horovod.tensorflow",
        "sciml_par.horovod.tensorflow.keras",
        "sciml_par.horovod.keras",
    ],
    "errors": ["sciml_par.errors"],
    "sciml_par": ["sciml_par"],
}
"""The packages of each page. The last has nothing of its own: it comes after those it links to."""

FILES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


@dataclass(frozen=True)
class Name:
    """A public name of a package.

    Attributes
    ----------
    package : which exports it.
    name : as it is imported from there.
    path : of its definition, as in "sciml_par.problems.problem.Problem".
    """

    package: str
    name: str
    path: str


def names_of(package: str) -> list[Name]:
    """Those of the package's stub, in its order; of a module all classes that it defines."""
    folder = ROOT.joinpath(*package.split("."))
    if not folder.is_dir():
        tree = ast.parse(folder.with_suffix(".py").read_text(encoding="utf-8"))
        classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        return [Name(package, name, f"{package}.{name}") for name in classes]
    tree = ast.parse((folder / "__init__.pyi").read_text(encoding="utf-8"))
    found: dict[str, Name] = {}
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue  # without a module, it imports modules
        source = _module(node, package)
        for alias in node.names:
            if alias.name == "*":
                found |= {each.name: replace(each, package=package) for each in names_of(source)}
            elif not alias.name.startswith("_"):
                name = alias.asname or alias.name
                found[name] = Name(package, name, f"{source}.{alias.name}")
    return list(found.values())


def _module(node: ast.ImportFrom, package: str) -> str:
    return f"{package}.{node.module}" if node.level else str(node.module)


def defined_at(path: str) -> str:
    """The path of the definition behind names that modules import from one another."""
    module, _, name = path.rpartition(".")
    file = ROOT.joinpath(*module.split("."))
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            if (alias.asname or alias.name) == name:
                above = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
                source = _module(node, above)
                # What other projects define is shown where it is imported.
                return defined_at(f"{source}.{alias.name}") if _is_own(source) else path
    return path


def _is_own(module: str) -> bool:
    found = ROOT.joinpath(*module.split("."))
    return found.with_suffix(".py").is_file() or (found / "__init__.py").is_file()


def api_pages() -> Iterator[tuple[str, str]]:
    """The name and the Markdown of each page of the API."""
    shown: dict[str, Name] = {}
    for page, packages in PAGES.items():
        parts = [f"# `{packages[0] if len(packages) == 1 else f'sciml_par.{page}'}`\n"]
        for package in packages:
            parts += _section(package, shown, titled=len(packages) > 1)
        yield page, "\n".join(parts)


def _section(package: str, shown: dict[str, Name], *, titled: bool) -> Iterator[str]:
    if titled:
        yield f"## `{package}`\n"
    yield f"{_docstring(package)}\n"
    elsewhere = []
    for each in names_of(package):
        path = defined_at(each.path)
        if path in shown:
            elsewhere.append(f"- `{each.name}` is [`{_told(shown[path])}`][{path}]")
            continue
        shown[path] = each
        options = f"heading: {each.name}\n        toc_label: {each.name}"
        yield f"::: {path}\n    options:\n        {options}\n"
    if elsewhere:
        yield "\n".join(["", "Shown elsewhere:", "", *elsewhere, ""])


def _told(name: Name) -> str:
    return f"{name.package}.{name.name}"


def _docstring(package: str) -> str:
    file = ROOT.joinpath(*package.split("."))
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def page_of(file: str) -> str:
    """The Markdown of a file of the root as that of a page: links are relative to docs/."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return re.sub(r"\]\(docs/", "](", text)


def on_files(files: Any, config: Any) -> Any:
    """Called by MkDocs: add the pages."""
    from mkdocs.structure.files import File

    made = {f"api/{page}.md": text for page, text in api_pages()}
    made |= {name: page_of(file) for name, file in FILES.items()}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files
