"""The replicas of a model, a rank each: found to have drifted, and brought together."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par._text import rank_list
from sciml_par.errors import TrainingError
from sciml_par.parallel.collectives.fused import fused_broadcast
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.loop.loop import State


def digest_of(state: State) -> bytes:
    """Sixteen bytes that differ where the weights do, in any bit."""
    return hashlib.blake2b(state.parameters.numpy().tobytes(), digest_size=16).digest()


def bring_together(state: State, step: int, group: Communicator) -> tuple[State, float]:
    """Rank 0's state in place of those that rounding has driven apart (collective).

    All ranks compute the same updates from the same gradients. Processors of two kinds may round
    them differently, and what differs in the last digit grows with the steps.
    """
    leaves = fused_broadcast(tf.nest.flatten(state), 0, communicator=group)
    together = tf.nest.pack_sequence_as(state, leaves)
    mine = _relative_distance(state.parameters.numpy(), together.parameters.numpy())
    distances = group.allgather_object(mine)
    worst = float(np.max(distances))  # which a NaN passes through
    limit = float(np.sqrt(np.finfo(together.parameters.numpy().dtype).eps))
    if not worst <= limit:
        raise TrainingError(_parted(distances, limit, step))
    return together, worst


def _relative_distance(weights: Any, reference: Any) -> float:
    exact = reference.astype(np.float64)
    return float(np.linalg.norm(weights - exact)) / max(float(np.linalg.norm(exact)), 1e-300)


def _parted(distances: list[float], limit: float, step: int) -> str:
    far = [rank for rank, distance in enumerate(distances) if not distance <= limit]
    return (
        f"the replicas of the model have parted: after step {step:,} the weights of "
        f"{rank_list(far)} of {len(distances)} differ from those of rank 0 by "
        f"{np.max(distances):.1e} of their size, and rounding explains {limit:.1e} at most. Every "
        f"rank makes the same update of the same gradient, so the causes are an optimizer that "
        f"depends on the rank, different versions of software, or a faulty machine."
    )
