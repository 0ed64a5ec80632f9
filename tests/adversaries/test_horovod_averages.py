"""Averages of every kind of input by Horovod's names; its loops are in tests/horovod."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from outcomes import Row, Table, on_two

import sciml_par.horovod.tensorflow as hvd

pytestmark = pytest.mark.long
table = Table()


@table.gives(1e-6, on_two)
def averages_of_every_kind_of_input() -> Any:
    r, mean = hvd.rank(), (hvd.size() - 1) / 2
    return [
        (hvd.allreduce(float(r)).numpy(), mean),
        (hvd.allreduce([r * 1.0, 2.0]).numpy(), np.array([mean, 2.0])),
        (hvd.allreduce(np.full(3, r, "float64")).numpy(), np.full(3, mean)),
        (hvd.allreduce(tf.constant(r, tf.float16)).numpy(), mean),
        (
            hvd.allreduce(tf.constant([r], tf.int64), op=hvd.Sum).numpy(),
            np.array([2 * mean * hvd.size() / 2]),
        ),
        (hvd.allreduce(tf.fill([2, 0], 1.0)).numpy(), np.zeros((2, 0))),
        (hvd.allreduce(tf.constant(r + 1j, tf.complex64)).numpy(), mean + 1j),
        (hvd.allreduce(tf.constant(float(r)), average=False).numpy(), mean * hvd.size()),
    ]


@table.gives(0.0, on_two)
def averages_of_bytes() -> Any:
    # The sum of what the ranks have does not fit into a byte; the average does.
    found = hvd.allreduce(tf.constant([200, 100], tf.uint8))
    pair = hvd.grouped_allreduce([tf.constant([-100], tf.int8), tf.constant([2**30, -7])])
    return [
        (found.numpy(), np.array([200, 100])),
        (pair[0].numpy(), np.array([-100])),
        (pair[1].numpy(), np.array([2**30, -7])),
        (float([found.dtype, *(y.dtype for y in pair)] == [tf.uint8, tf.int8, tf.int32]), 1.0),
    ]


table.add(
    Row(
        "a gradient that there is not",
        lambda: hvd.grouped_allreduce([tf.zeros([2]), None]),
        says="allreduce: expected tensors; got None for number 1 of 2",
    )
)

test_programs = table.as_test()
