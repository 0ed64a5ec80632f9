"""Nothing happens at import; and every public name is there."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
from launch import ROOT, launch

STUBS = sorted((ROOT / "sciml_par").rglob("__init__.pyi"))

PROBE = """
import importlib, os, sys, threading
before = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}  # which TensorFlow reads when it is imported
heavy = ("tensorflow", "keras", "mpi4py.MPI", "matplotlib", "scipy", "cupy")


def check(name, *heavy):
    found = [name for name in heavy if name in sys.modules]
    assert not found and os.environ == before and threading.active_count() == 1, (name, found)


for name in ("sciml_par", "sciml_par.parallel", "sciml_par.parallel.groups.world"):
    module = importlib.import_module(name)
    getattr(module, "__all__", ""), dir(module)
    check(name, *heavy)

import sciml_par.info.main
check("the command line", "tensorflow", "keras", "mpi4py.MPI", "cupy")
# `init` divides threads and GPUs, which is too late once TensorFlow is imported.
from sciml_par import init, problems, programs, rank, results, size, train
from sciml_par.problems import *
from sciml_par.training import *
check("what programs name before init", "tensorflow", "keras", "scipy.stats")
"""


@pytest.mark.launches
def test_nothing_happens_at_import(tmp_path):
    launch(None, "-W", "error", "-c", PROBE, folder=tmp_path, fresh=True).succeeded()


LOADER = """
import {imports}
sciml_par.init()
print(type(keras.models.load_model("network.keras")).__name__)
"""


@pytest.mark.launches
@pytest.mark.parametrize("imports", ("sciml_par, keras", "keras, sciml_par"))
def test_keras_before_init_finds_the_classes_of_files_and_logs_nothing(imports, tmp_path):
    from sciml_par.networks import MLP

    MLP(1, 1).save(tmp_path / "network.keras")
    (tmp_path / "load.py").write_text(LOADER.format(imports=imports))
    # A copy has Keras from the start; what it has logged then cannot be taken back.
    fresh = imports.endswith("keras")
    assert launch(None, "load.py", folder=tmp_path, fresh=fresh).succeeded().out == "MLP\n"


def test_all_classes_of_files_have_a_stand_in():
    import keras

    from sciml_par import _at_import

    for module, names in _at_import.REGISTERED.items():
        for name in names.split():
            found = getattr(importlib.import_module(f"sciml_par.{module}"), name)
            assert keras.saving.get_registered_object(f"sciml_par>{name}") is found
    # Those of the sources: a class that nothing has imported is not in Keras' register.
    decorated = re.compile(r'register_keras_serializable\(package="sciml_par"\)\nclass (\w+)')
    sources = [path.read_text() for path in (ROOT / "sciml_par").rglob("*.py")]
    classes = [name for source in sources for name in decorated.findall(source)]
    assert sorted(classes) == sorted(" ".join(_at_import.REGISTERED.values()).split())


def names_in(stub: Path) -> list[str]:
    nodes = [node for node in ast.parse(stub.read_text()).body if hasattr(node, "names")]
    names = [a.asname or a.name for node in nodes for a in node.names if a.name != "*"]
    for node in nodes:
        if node.names[0].name == "*":
            others = importlib.import_module(node.module).__all__
            names += [name for name in others if name not in names]
    return names


@pytest.mark.parametrize("stub", STUBS, ids=lambda s: ".".join(s.relative_to(ROOT).parent.parts))
def test_every_name_resolves(stub):
    package = importlib.import_module(".".join(stub.relative_to(ROOT).parent.parts))
    names = names_in(stub)
    assert names and len(set(names)) == len(names)
    for name in names:
        assert getattr(package, name) is not None
    assert set(names) == set(package.__all__)


def test_an_unknown_name_is_an_attribute_error():
    import sciml_par

    with pytest.raises(AttributeError, match="No sciml_par attribute no_such_name$"):
        _ = sciml_par.no_such_name
    with pytest.raises(ImportError, match="No sciml_par attribute no_such_name$"):
        exec("from sciml_par import no_such_name")


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("allreduce", "parallel"),
        ("Dirichlet", "problems"),
        ("MLP", "networks"),
        ("Adam", "training"),
    ],
)
def test_a_name_of_a_package_inside_is_said_to_be_there(name, package):
    import sciml_par

    said = f"'{name}'; it is in sciml_par.{package}: from sciml_par.{package} import {name}$"
    with pytest.raises(AttributeError, match=said):
        getattr(sciml_par, name)
    with pytest.raises(ImportError, match=said):
        exec(f"from sciml_par import {name}")
