"""The layers of the package: who may import whom, read off the import statements."""

from __future__ import annotations

import ast
import collections
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "sciml_par"
SIBLINGS = {"problems", "networks", "parallel", "evaluation"}
BELOW = {
    **{sibling: {"errors"} for sibling in SIBLINGS},
    "algebra": set(),
    "assembly": {"algebra", "problems", "networks", "errors"},
    "results": SIBLINGS | {"errors"},
    "training": {"results", "assembly", "algebra", *SIBLINGS, "errors"},
    "families": {"training", "results", "assembly", "algebra", *SIBLINGS, "errors"},
    "info": {"programs", *SIBLINGS, "errors"},
    "horovod": {"parallel", "errors"},
}
TOP = {"training", "results", "assembly", "algebra", *SIBLINGS, "errors"}
"""What scripts, the Horovod facade, command lines and the package itself may import."""

FLOORS = {
    "parallel": {
        "requests": 1,
        "tensors": 1,
        "native": 2,
        "transports": 2,
        "groups": 3,
        "execution": 4,
        "timeline": 4,
        "supervision": 4,
        "collectives": 5,
        "startup": 5,
        "gradients": 6,
    },
    "problems": {
        "checks": 1,
        "domains": 2,
        "fields": 3,
        "operators": 4,
        "terms": 5,
        "conditions": 6,
        "imposition": 7,
        "unknowns": 8,
        "_arguments": 9,
        "problem_check": 10,
        "problem": 11,
        "catalogue": 12,
    },
    "networks": {"layers": 1, "propagation": 2, "models": 3, "keras": 4},
    "training": {
        "_results": 0,
        "identity": 1,
        "arguments": 1,
        "points": 2,
        "loss": 3,
        "members": 4,
        "weights": 4,
        "optimizers": 4,
        "loop": 5,
        "preparation": 6,
        "run": 6,
        "checkpoints": 7,
        "outcome": 7,
        "growth": 8,
        "uncertainty": 8,
        "windows": 8,
        "estimate": 9,
        "solving": 10,
        "once": 11,
        "slabs": 12,
        "train": 13,
        "fit": 14,
        "solve_by_networks": 14,
        "solve": 15,
    },
}
"""The subpackages and files of a layer; each imports only itself and those with lower numbers."""

MOST_FILES = 20

MODULES = sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    """Return the top folder of `path` in the package, or its own name at the top."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield the full names that statements under `tree` import, `import_module` included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            origin = ".".join(filter(None, (base, node.module)))
            yield from (f"{origin}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) == "import_module":
            yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))


def called(node: ast.Call) -> str | None:
    return getattr(node.func, "id", getattr(node.func, "attr", None))


@functools.cache
def imports_of(path: Path) -> set[str]:
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return set(imported(ast.parse(path.read_text()), package))


def at_module_level(path: Path) -> set[str]:
    """Return the imports that run at import: not those in functions or for typing."""
    package = ".".join(path.relative_to(ROOT).parent.parts)
    tree = ast.parse(path.read_text())

    class Pruned(ast.NodeTransformer):
        def visit_FunctionDef(self, node):
            return None

        visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

        def visit_If(self, node):
            name = getattr(node.test, "id", getattr(node.test, "attr", None))
            return None if name == "TYPE_CHECKING" else self.generic_visit(node)

    return set(imported(Pruned().visit(tree), package))


def layers_in(names: set[str]) -> set[str]:
    """Return the layers among imported names; private modules at the top belong to everyone."""
    parts = [name.split(".") for name in names]
    layers = {p[1] for p in parts if p[0] == "sciml_par" and len(p) > 1}
    return {layer for layer in layers if not layer.startswith("_")}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_a_module_imports_from_its_own_layer_and_those_below():
    for path in MODULES:
        layer = layer_of(path)
        allowed = set() if layer == "errors" else BELOW.get(layer, TOP) | {layer}
        if layer.startswith("_") and layer != "__init__":
            allowed = {"errors"}
        forbidden = layers_in(imports_of(path)) - allowed
        assert not forbidden, f"{name_of(path)} imports from {', '.join(sorted(forbidden))}"


def test_matplotlib_is_imported_in_evaluation_alone():
    for path in MODULES:
        tops = {name.split(".")[0] for name in imports_of(path)}
        drawing = tops & {"matplotlib", "mpl_toolkits"}
        assert layer_of(path) == "evaluation" or not drawing, name_of(path)


def subpackage_of(module: str) -> tuple[str, str] | None:
    """Return the layer and the subpackage of a module, or of a name imported from one."""
    parts = module.split(".")
    if len(parts) < 3 or parts[0] != "sciml_par":
        return None
    return (parts[1], parts[2]) if parts[2] in FLOORS.get(parts[1], ()) else None


@pytest.mark.parametrize("layer", FLOORS)
def test_no_file_lies_beside_the_subpackages(layer):
    folder = PACKAGE / layer
    found = {each.stem for each in folder.glob("*.py*")}
    found |= {each.parent.name for each in folder.glob("*/__init__.py")}
    assert found == {*FLOORS[layer], "__init__"}


def test_a_subpackage_imports_from_the_floors_below():
    for path in MODULES:
        subpackage = subpackage_of(module_name(path))
        if subpackage is None:
            continue
        floors = FLOORS[subpackage[0]]
        others = {subpackage_of(name) for name in imports_of(path)} - {subpackage, None}
        above = {
            o
            for layer, o in others
            if layer == subpackage[0] and floors[o] >= floors[subpackage[1]]
        }
        assert not above, f"{name_of(path)} imports from {', '.join(sorted(above))}"


def owner_of_private(name: str) -> str | None:
    """Return the owner of the first part of `name` with an underscore."""
    parts = name.split(".")
    private = [i for i, part in enumerate(parts) if part.startswith("_") and part[:2] != "__"]
    return ".".join(parts[: private[0]]) if private and parts[0] == "sciml_par" else None


def test_names_with_underscores_stay_in_their_subpackage():
    for path in MODULES:
        module = module_name(path)
        subpackage = ".".join(module.split(".")[:3])
        for name in imports_of(path):
            owner = owner_of_private(name)
            inside = (
                owner is None
                or f"{module}.".startswith(f"{owner}.")
                or owner.startswith(subpackage)
            )
            assert inside, f"{name_of(path)} imports {name}"


def test_a_folder_has_few_files():
    counts = collections.Counter(path.parent.relative_to(PACKAGE) for path in MODULES)
    many = {str(folder) for folder, count in counts.items() if count > MOST_FILES}
    assert not many


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_graph() -> dict[str, set[str]]:
    """Return {module: imported modules}, those in functions and for typing included."""
    modules = {module_name(path): path for path in MODULES}
    return {
        module: {
            next(filter(modules.__contains__, (name, name.rpartition(".")[0])), module)
            for name in imports_of(path)
        }
        - {module}
        for module, path in modules.items()
    }


def test_no_modules_import_one_another_in_a_circle():
    tuple(graphlib.TopologicalSorter(module_graph()).static_order())  # names the circle


def imported_modules(path: Path, seen: set[Path]) -> set[Path]:
    """Return `path` and all modules of the package that its import runs."""
    if path in seen:
        return seen
    seen.add(path)
    for name in at_module_level(path):
        for candidate in (name, name.rpartition(".")[0]):
            file = ROOT / (candidate.replace(".", "/") + ".py")
            if candidate.startswith("sciml_par") and file.exists():
                imported_modules(file, seen)
    return seen


def test_init_comes_before_tensorflow():
    """What `sciml_par.init` needs imports neither TensorFlow nor Keras nor MPI by itself."""
    modules = imported_modules(PACKAGE / "parallel" / "startup" / "init.py", set())
    assert len(modules) > 5
    for path in {PACKAGE / "__init__.py", PACKAGE / "parallel" / "__init__.py", *modules}:
        heavy = {n.split(".")[0] for n in at_module_level(path)} & {"tensorflow", "keras", "mpi4py"}
        assert not heavy, f"{name_of(path)} imports {', '.join(heavy)}"


def test_the_rule_sees_what_it_should(tmp_path):
    """The reader of imports itself, on a module that breaks every rule."""
    source = """
from ..parallel import world
from sciml_par import training
import os.path
import_module("sciml_par.networks._hidden")
"""
    names = set(imported(ast.parse(source), "sciml_par.problems"))
    hidden = "sciml_par.networks._hidden"
    assert names == {"sciml_par.parallel.world", "sciml_par.training", "os.path", hidden}
    assert owner_of_private(hidden) == "sciml_par.networks"
    assert layers_in(names) == {"parallel", "training", "networks"}
