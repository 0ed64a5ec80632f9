"""The layers of the package: who may import whom, read off the import statements."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "sciml_par"
SIBLINGS = {"problems", "networks", "parallel", "evaluation"}
BELOW = {
    **{sibling: {"errors"} for sibling in SIBLINGS},
    "results": SIBLINGS | {"errors"},
    "training": {"results", *SIBLINGS, "errors"},
    "info": {"programs", *SIBLINGS, "errors"},
    "horovod": {"parallel", "errors"},
}
TOP = {"training", "results", *SIBLINGS, "errors"}
"""What scripts, the Horovod facade, command lines and the package itself may import."""

FLOORS = {
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
}
"""The rooms of `parallel`; each imports only itself and rooms on floors below its own."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    """The folder of `path` right under the package, or its name where it lies there itself."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(tree: ast.AST, package: str) -> Iterator[str]:
    """The full names that the import statements under `tree` bring in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            origin = ".".join(filter(None, (base, node.module)))
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def imports_of(path: Path) -> set[str]:
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return set(imported(ast.parse(path.read_text()), package))


def at_module_level(path: Path) -> set[str]:
    """The imports that run when the module is imported: not those in functions or for typing."""
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
    """The layers of the package among imported names; private modules on top are everyone's."""
    parts = [name.split(".") for name in names]
    layers = {p[1] for p in parts if p[0] == "sciml_par" and len(p) > 1}
    return {layer for layer in layers if not layer.startswith("_")}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_from_its_own_layer_and_those_below(path):
    layer = layer_of(path)
    allowed = set() if layer == "errors" else BELOW.get(layer, TOP) | {layer}
    if layer.startswith("_") and layer != "__init__":
        allowed = {"errors"}
    forbidden = layers_in(imports_of(path)) - allowed
    assert not forbidden, f"{name_of(path)} imports from {', '.join(sorted(forbidden))}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_matplotlib_is_imported_in_evaluation_alone(path):
    if layer_of(path) != "evaluation":
        assert not [
            n for n in imports_of(path) if n.split(".")[0] in ("matplotlib", "mpl_toolkits")
        ]


def room_of(module: str) -> str | None:
    """The room of `parallel` in which a module, or a name imported from one, is."""
    parts = module.split(".")
    found = parts[2] if parts[:2] == ["sciml_par", "parallel"] and len(parts) > 2 else None
    return found if found in FLOORS else None


def test_no_file_lies_beside_the_rooms_of_parallel():
    folder = PACKAGE / "parallel"
    assert {each.name for each in folder.iterdir() if each.name != "__pycache__"} == {
        *FLOORS,
        "__init__.py",
        "__init__.pyi",
    }


@pytest.mark.parametrize("path", [m for m in MODULES if "parallel" in m.parts], ids=name_of)
def test_a_room_imports_from_the_floors_below(path):
    room = room_of(module_name(path))
    others = {room_of(name) for name in imports_of(path)} - {room, None}
    above = {other for other in others if FLOORS[other] >= FLOORS.get(room, 0)}
    assert not above or room is None, f"{name_of(path)} imports from {', '.join(sorted(above))}"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_graph() -> dict[str, set[str]]:
    """{module: the modules that it imports}, those in functions and for typing included."""
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
    """`path` and the package's modules that importing it imports in turn."""
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
    tree = ast.parse("from ..parallel import world\nfrom sciml_par import training\nimport os.path")
    names = set(imported(tree, "sciml_par.problems"))
    assert names == {"sciml_par.parallel.world", "sciml_par.training", "os.path"}
    assert layers_in(names) == {"parallel", "training"}
