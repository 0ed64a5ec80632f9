"""Write a figure as PNG and PDF."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure

from sciml_par._files import write_whole
from sciml_par.errors import InputError, OutputError
from sciml_par.evaluation.figures.parts import style

DOTS_PER_INCH = 200


def save_figure(figure: Figure, directory: str | os.PathLike[str], name: str) -> tuple[Path, Path]:
    """Write `directory`/`name`.png (200 dots an inch) and `directory`/`name`.pdf.

    Local: call it on one rank. Missing folders are made. Each file is written aside and then
    moved into place, so that a reader never sees half of it. The PDF embeds its fonts as
    TrueType (Type 42), which journals ask for, and carries no date: equal figures give equal files.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        As the plot functions return it.
    directory : path
        Folder to write to.
    name : str
        File name without ending, such as "loss".

    Returns
    -------
    (Path, Path)
        The PNG file and the PDF file.

    Raises
    ------
    InputError
        If `name` is empty or holds a folder.
    OutputError
        If the folder cannot be made or written.
    """
    if not name or name in (".", "..") or Path(name).name != name:
        raise InputError(
            f"save_figure: expected a file name without folder, such as 'loss'; got {name!r}. "
            "Put the folder into `directory`."
        )
    folder = Path(directory)
    png, pdf = folder / f"{name}.png", folder / f"{name}.pdf"
    before = figure.canvas, figure.dpi, figure.get_layout_engine()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with style.paper_style():
            figure.dpi = DOTS_PER_INCH
            # Not savefig, which with a layout engine draws everything twice.
            write_whole(png, FigureCanvasAgg(figure).print_png)
            undated = {"CreationDate": None}
            figure.set_layout_engine("none")  # the panels stay where they are
            write_whole(pdf, partial(FigureCanvasPdf(figure).print_pdf, metadata=undated))
    except OSError as error:
        raise OutputError(
            f"save_figure: cannot write {name}.png and {name}.pdf to '{folder}': {error}. "
            "Choose a folder that you may write to."
        ) from error
    finally:
        canvas, figure.dpi, engine = before
        figure.set_canvas(canvas)
        if engine is not None:
            figure.set_layout_engine(engine)
    return png, pdf
