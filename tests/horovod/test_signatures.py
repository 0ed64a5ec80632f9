"""Every public name of Horovod, with its parameters, their order and their defaults."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sciml_par.horovod.tensorflow as hvd
from sciml_par.errors import InputError
from sciml_par.horovod.common.refused import Refused

pytestmark = pytest.mark.skipif(hvd.size() > 1, reason="concerns each rank separately")

TABLE = Path(__file__).with_name("horovod_names.txt")
SELF_EXPLAINED = {
    "Compression.none": hvd.Compression.none,
    "global_process_set": hvd.global_process_set,
    "Average": hvd.Average,
}
ANY = ["self", "*args", "**kwargs"]
PRIVATE = {  # the modules here of classes in Horovod's __init__
    "_DistributedOptimizer": "legacy_optimizer",
    "_DistributedAdasumOptimizer": "legacy_optimizer",
    "_DistributedGradientTape": "tape",
}


def entries() -> Iterator[tuple[str, str]]:
    """(module, line) of the table; methods as "Class.def name(...)"."""
    module = owner = ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text.startswith("["):
            module = "sciml_par." + text.strip("[]")
        elif text.startswith("class "):
            owner = text.removeprefix("class ")
            yield module, owner
        elif text.startswith("def "):
            yield module, f"{owner}.{text}" if line.startswith(" ") else text
        elif "=" in text:
            yield module, text.partition(" =")[0]


def found(module: str, path: str) -> Any:
    name = path.partition(".")[0]
    where = f"{module}.{PRIVATE[name]}" if name in PRIVATE else module
    value = importlib.import_module(where)
    for part in path.split("."):
        value = getattr(value, part)
    return value


def as_text(default: Any) -> str:
    names = [name for name, value in SELF_EXPLAINED.items() if value is default]
    return names[0] if names else repr(default)


def parameters(value: Any) -> list[str]:
    """Ours, as in the table, without annotations; those that we add are for keywords only."""
    each = inspect.signature(value).parameters.values()
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        stars.get(p.kind, "")
        + p.name
        + ("" if p.default is inspect.Parameter.empty else f"={as_text(p.default)}")
        for p in each
        if p.kind is not inspect.Parameter.KEYWORD_ONLY
    ]


def parameters_in(definition: str) -> list[str]:
    """Horovod's."""
    function = ast.parse(f"{definition}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    given = function.args
    first = len(given.args) - len(given.defaults)
    defaults = ["" for _ in range(first)] + [f"={ast.unparse(d)}" for d in given.defaults]
    texts = [argument.arg + text for argument, text in zip(given.args, defaults, strict=True)]
    texts += [f"*{given.vararg.arg}"] if given.vararg else []
    return texts + ([f"**{given.kwarg.arg}"] if given.kwarg else [])


@pytest.mark.parametrize("module", sorted({module for module, _ in entries()}))
def test_names_and_signatures_are_horovods(module):
    lines = [line for where, line in entries() if where == module]
    assert lines
    for line in lines:
        owner, _, definition = line.rpartition("def ")
        if not definition or "(" not in definition:
            assert found(module, line) is not None
            continue
        path = owner + definition.partition("(")[0]
        ours = found(module, path)
        if isinstance(ours, Refused):  # whatever the arguments
            with pytest.raises(InputError, match=f"{path}: there is no|run: no processes"):
                ours(*parameters_in(f"def {definition}"))
            continue
        assert parameters(ours) in (parameters_in(f"def {definition}"), ANY), path


def test_the_main_module_shows_the_others_names():
    shown = {"tensorflow", "mpi_ops", "functions"}
    names = [
        line.rpartition("def ")[2].partition("(")[0]
        for module, line in entries()
        if module.rpartition(".")[2] in shown and not line.startswith("_") and "." not in line
    ]
    assert [name for name in names if not hasattr(hvd, name)] == []


PROBE = """
import sys
import sciml_par.horovod, sciml_par.horovod.tensorflow as hvd
assert not hvd.is_initialized() and hvd.mpi_built() and not hvd.gloo_built()
hvd.init, hvd.rank, hvd.Average, hvd.global_process_set
sys.exit(", ".join({"tensorflow", "keras", "mpi4py.MPI"} & set(sys.modules)) or 0)
"""


@pytest.mark.launches
def test_the_import_leaves_tensorflow_and_mpi_alone():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE],
        capture_output=True,
        check=False,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stderr) == (0, "")
