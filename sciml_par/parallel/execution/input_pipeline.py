"""Collectives inside the functions of a `tf.data` pipeline.

TensorFlow runs a pipeline in threads of its own, ahead of the program (it puts a prefetch behind
the last stage even where none is asked for). So where the program also calls collectives, it is
not known which come first. In a parallel stage it is not even known in which order its own come.
"""

from __future__ import annotations

import sys
from types import FrameType

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.requests.signature import IN_INPUT_PIPELINE

_TF_DATA = "tensorflow.python.data.ops."


def name_in_pipeline(kind: str, name: str | None) -> str | None:
    """The name of a collective where it is called, which says so if a pipeline's function is traced
    (local).

    Such a collective is compared with those of the other ranks each time, so that a rank in which
    the program came first is found.
    """
    if tf.executing_eagerly():
        return name
    stages = _stages_being_traced()
    if not stages:
        return name
    parallel = next((stage for stage in stages if "Parallel" in stage), None)
    if parallel is not None:
        raise InputError(
            f"{kind}: called in a parallel stage of a tf.data pipeline ({parallel.strip('_')}), "
            f"whose calls come in another order on each rank. Leave num_parallel_calls out, or "
            f"call it outside of the pipeline."
        )
    return f"{name or kind}{IN_INPUT_PIPELINE}"


def _stages_being_traced() -> list[str]:
    """Return the classes of the datasets whose functions are being traced."""
    stages = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_TF_DATA):
            stages.append(type(frame.f_locals.get("self")).__name__)
        frame = frame.f_back
    return stages
