"""The notebooks of the docs run from top to bottom, and a kernel can be interrupted."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient

from sciml_par._terminal import CellLine

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def executed(cells: Any, folder: Path, **options: Any) -> Any:
    """Execute cells in a kernel of this interpreter, in a folder."""
    new: Any = nbformat.v4.new_notebook
    book = new(cells=cells)
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(book, timeout=300, resources=resources, **options)
    # Without folders of kernels, the kernel is this interpreter, whatever the machine has.
    client.create_kernel_manager().kernel_spec_manager = KernelSpecManager(kernel_dirs=[])
    client.execute(env=environment())
    return book


def environment() -> dict[str, str]:
    found = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": found, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}


def texts(cell: Any) -> list[str]:
    return [o.get("text", o.get("data", {}).get("text/plain", "")) for o in cell.outputs]


@pytest.mark.long
@pytest.mark.launches
@pytest.mark.timeout(400)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    read: Any = nbformat.read
    cells = read(path, as_version=4).cells
    links = re.findall(r"\]\(([^):]+)\)", "\n".join(cell.source for cell in cells))
    assert all((FOLDER / link).exists() for link in links)
    executed(cells, tmp_path)


@pytest.mark.long
@pytest.mark.launches
@pytest.mark.timeout(400)
def test_a_cell_shows_one_line_and_can_be_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel stays, also at a second interrupt, and trains again."""
    registered = tmp_path / "kernels" / "python3" / "kernel.json"
    registered.parent.mkdir(parents=True)
    registered.write_text('{"argv": ["false"], "display_name": "", "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    sources = [
        "import sys; print(sys.executable)\n"
        "import sciml_par as sp\nsp.init(); sp.init()\nproblem = sp.problems.poisson(k=1)",
        "import os, signal, time\n"
        "def interrupt_twice(progress):\n"
        "    for _ in range(2):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(1)\n"
        "stopped = sp.train(\n"
        "    problem, points=32, steps=10**9, estimate=False, callbacks=interrupt_twice\n"
        ")\n"
        "print(stopped.members[0].ended)",
        "result = sp.train(problem, points=32, steps=2000, estimate=False)\nresult",
    ]
    code: Any = nbformat.v4.new_code_cell
    cells = [code(each) for each in sources]
    first, interrupted, last = executed(cells, tmp_path).cells
    assert [text.strip() for text in texts(first)] == [sys.executable]
    assert "SIGINT" in [text.strip() for text in texts(interrupted)]
    lines = [text for text in texts(last) if text.startswith("step ")]
    assert len(lines) == 1 and lines[0].startswith("step 2,000 of 2,000")
    assert "text/html" in last.outputs[-1]["data"]


def test_elsewhere_there_is_no_line_of_a_notebook() -> None:
    assert CellLine.of_notebook() is None
