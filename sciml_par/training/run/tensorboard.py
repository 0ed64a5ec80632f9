"""Losses for TensorBoard, written by TensorFlow."""

from __future__ import annotations

import os
from typing import Any

from sciml_par._files import checked_path
from sciml_par._tensorflow import tf
from sciml_par.problems.unknowns.unknowns import names_of_numbers, numbers_of
from sciml_par.training.loop.course import Course
from sciml_par.training.run.callbacks import Callback, Progress


class TensorBoard(Callback):
    """Write the loss and each of its terms at all steps where they are recorded.

    The scalars are "loss", "terms/NAME" and "unknowns/NAME". The first of the ranks that train a
    model writes, in mode "data" to the folder, and for ensembles to a folder in it for each member.
    Events are written at the end of chunks; TensorFlow adds a file for each training.

    Parameters
    ----------
    folder : what `tensorboard --logdir` is given.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = checked_path(folder, "TensorBoard: folder")
        self._writers: dict[int, Any] = {}
        self._written: dict[tuple[int, ...], int] = {}

    def on_train_begin(self, progress: Progress) -> None:
        """Leave out the records of a training that this one resumes (local)."""
        self._writers.clear()
        self._written = {c.stack.numbers: len(c.steps) for c in progress.courses}

    def on_chunk_end(self, progress: Progress) -> None:
        """Write all records since the last chunk (local)."""
        if not progress.speaks:
            return
        for course in progress.courses:
            first = self._written.get(course.stack.numbers, 0)
            for j, number in enumerate(course.stack.numbers):
                folder = self._folder
                if progress.ensemble:
                    folder = folder / f"member-{number}"
                if number not in self._writers:
                    self._writers[number] = tf.summary.create_file_writer(str(folder))
                self._write(course, j, first, self._writers[number])
            self._written[course.stack.numbers] = len(course.steps)

    def on_train_end(self, progress: Progress) -> None:
        """Close the files (local)."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _write(self, course: Course, j: int, first: int, writer: Any) -> None:
        end = course.last_step_of(j)
        count, unknowns = len(course.stack.terms), course.stack.setups[j].problem.unknowns
        names = names_of_numbers(unknowns)
        with writer.as_default():
            for steps, records in zip(course.steps[first:], course.records[first:], strict=True):
                for step, record in zip(steps, records[:, j], strict=True):
                    if step > end:
                        continue
                    terms, values = record[:count], numbers_of(unknowns, record[count:])
                    _scalar("loss", terms.sum(), step)
                    for term, value in zip(course.stack.terms, terms, strict=True):
                        _scalar(f"terms/{term.name}", value, step)
                    for name, value in zip(names, values, strict=True):
                        _scalar(f"unknowns/{name}", value, step)
        writer.flush()


def _scalar(name: str, value: float, step: int) -> None:
    """Write a scalar as `tf.summary.scalar` does, which needs the package of TensorBoard."""
    kind = tf.compat.v1.SummaryMetadata
    metadata = kind(plugin_data=kind.PluginData(plugin_name="scalars"))
    metadata.data_class = 1  # scalars, in TensorFlow's summary.proto
    tf.summary.write(name, tf.constant(value, tf.float32), step=int(step), metadata=metadata)
