"""Ranks compare their requests; if they differ, all learn the request of each."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from sciml_par.parallel.requests.signature import Signature, mismatch_message

_COMPARED = struct.Struct("<16sQQ")
"""The digest of the signature, the number of the collective, and the digest of all before it."""

_NUMBER = struct.Struct("<q")


def compare(group: Any, signature: Signature, number: int) -> list[int]:
    """Return every rank's `number`, [P], if all ask and have asked for the same (collective)."""
    mine = _COMPARED.pack(signature.digest, group.progress.sequence, group.progress.order_digest)
    sent = np.frombuffer(mine + _NUMBER.pack(number), np.uint8)
    everyone = np.empty((group.size, sent.size), np.uint8)
    group.control.Allgather(sent, everyone)
    compared = everyone[:, : _COMPARED.size]
    if (compared == compared[0]).all():
        return everyone[:, _COMPARED.size :].copy().view(np.int64)[:, 0].tolist()
    # They differ now, or have at an earlier collective.
    asked = group.control.allgather((str(signature), group.progress.sequence))
    in_step = len({place for _, place in asked}) == 1
    if in_step and len({signature for signature, _ in asked}) == 1:
        raise group.mismatch_error(_past_explanation(group))
    asked_for = [w if in_step else f"{w}, its collective number {place}" for w, place in asked]
    raise group.mismatch_error(mismatch_message(group.name, dict(enumerate(asked_for))))


def _past_explanation(group: Any) -> str:
    """Return each rank's request at an earlier collective, which was not compared."""
    recent = {number: announcement.signature for number, announcement in group.progress.history}
    digests = {number: signature.digest for number, signature in recent.items()}
    sequence = group.progress.sequence
    histories = group.control.allgather(digests)
    known = sorted(set(digests).intersection(*histories))
    number = next((n for n in known if len({history[n] for history in histories}) > 1), None)
    if number is None:
        return (
            f"The ranks of «{group.name}» did not ask for the same collectives in the same order, "
            f"some time before their collective number {sequence}. Results since then are wrong. "
            f"Run with SCIML_PAR_CHECK=always to find the place."
        )
    asked_for = group.control.allgather(str(recent[number]))
    message = mismatch_message(group.name, dict(enumerate(asked_for)))
    return (
        f"{message}\nThat was their collective number {number}, {sequence - number} before "
        f"this one; results since then are wrong. Ranks compare new requests only; with "
        f"SCIML_PAR_CHECK=always, all."
    )
