"""The programs of this folder by name, for the tests, the benchmarks and the gallery."""

import importlib.util
import sys
from functools import cache
from pathlib import Path

from sciml_par.problems import problem_by_name

FOLDER = Path(__file__).parent
NAMES = tuple(sorted(f.stem.replace("_", "-") for f in FOLDER.glob("[a-z]*.py")))


@cache
def example(name):
    """Import a program by its name, such as "plate-hole"."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))  # of references
    stem = name.replace("-", "_")
    spec = importlib.util.spec_from_file_location(f"example_{stem}", FOLDER / f"{stem}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def problem_named(name, **parameters):
    """Make the problem of a program, or of the catalogue; call it after `init`."""
    make = example(name).problem if name in NAMES else lambda **p: problem_by_name(name, **p)
    return make(**parameters)


def equation_of(name):
    """Return the first line of a program's docstring."""
    return example(name).__doc__.splitlines()[0].rstrip(".")
