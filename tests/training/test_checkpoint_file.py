"""A checkpoint's file is whole at any moment, and what is not one is refused."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.training import Checkpoint
from sciml_par.training.checkpoints.checkpoint_file import (
    Content,
    from_bytes,
    read,
    remove_drafts,
    to_bytes,
    write,
)
from sciml_par.training.checkpoints.resume import _claim

pytestmark = pytest.mark.ranks(most=1, reason="files of one process")

CONTENT = Content(
    {"versions": {"numpy": "2"}, "courses": [{"step": 7}], "text": "−u″ = f"},
    {
        "course-0/state-0": np.arange(6.0).reshape(2, 3),
        "course-0/state-1": np.array([1.5, np.nan], np.float32),
        "course-0/behind": np.zeros(0, np.int64),
        "flag": np.array(True),
    },
)


def same(a: Content, b: Content) -> bool:
    return a.texts == b.texts and {
        n: (v.dtype, v.shape, v.tobytes()) for n, v in a.arrays.items()
    } == {n: (v.dtype, v.shape, v.tobytes()) for n, v in b.arrays.items()}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    write(CONTENT, path)
    assert same(read(path), CONTENT)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.npz"]
    with np.load(path, allow_pickle=False) as plain:  # as any program can
        np.testing.assert_array_equal(plain["course-0/state-0"], CONTENT.arrays["course-0/state-0"])


def test_objects_are_not_pickled() -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        to_bytes(Content({}, {"a": np.array([{}, None], object)}))


def test_every_changed_bit_and_every_missing_end_is_noticed() -> None:
    raw = to_bytes(CONTENT)
    path = Path("checkpoint.npz")
    for place in range(len(raw)):
        changed = bytearray(raw)
        changed[place] ^= 1 << (place % 8)
        for wrong in (bytes(changed), raw[:place]):
            with pytest.raises(
                InputError, match="checkpoint.npz is (damaged|not a checkpoint|a check)"
            ):
                from_bytes(wrong, path)


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the checkpoint .*Is a directory"):
        read(tmp_path)


def test_a_disk_without_room_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    write(CONTENT, path)
    larger = Content({}, {"a": np.zeros(10_000)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            write(larger, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.npz"]
    assert same(read(path), CONTENT)


WRITER = """
import os, sys
from pathlib import Path
import numpy as np
from sciml_par.training.checkpoints.checkpoint_file import Content, write
assert "tensorflow" not in sys.modules
path = Path(sys.argv[1])
number = int(sys.argv[2])
while True:
    number += 1
    write(Content({"number": number}, {"a": np.full(30_000, number)}), path)
    os.write(1, f"{number}\\n".encode())
"""


def test_killed_at_twenty_random_moments_it_loses_no_file_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    chance = random.Random(0)
    number, drafts = 0, 0
    for _ in range(20):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, path, str(number)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert writer.stdout is not None
        said = writer.stdout.readline()
        try:
            writer.wait(chance.uniform(0.0, 0.05))
        except subprocess.TimeoutExpired:
            writer.send_signal(signal.SIGKILL)
        said += writer.stdout.read()
        assert writer.wait() == -signal.SIGKILL
        found = read(path)
        told = int(said.split()[-1])
        number = found.texts["number"]
        assert number in (told, told + 1)  # killed between the file and the word
        np.testing.assert_array_equal(found.arrays["a"], number)
        drafts += len(list(tmp_path.glob(".checkpoint*.part")))
    assert drafts > 0, "no moment was in the midst of a file"
    remove_drafts(tmp_path, "checkpoint")
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.npz"]


def test_a_training_removes_what_killed_ones_have_left(tmp_path: Path) -> None:
    (tmp_path / ".checkpoint-group-2.node7-99.part").write_bytes(b"half")
    (tmp_path / "notes.part").write_text("the user's")
    _claim(Checkpoint(tmp_path), False)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.part"]
