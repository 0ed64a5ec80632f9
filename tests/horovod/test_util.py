"""Horovod's small helpers."""

from __future__ import annotations

import os

import pytest
import tensorflow as tf

import sciml_par.horovod.tensorflow as hvd
from sciml_par.horovod.common import util

pytestmark = pytest.mark.skipif(hvd.size() > 1, reason="concerns each rank separately")


def test_transports():
    assert util.mpi_built(verbose=True) is hvd.mpi_built() is hvd.mpi_enabled() is True
    assert isinstance(hvd.mpi_threads_supported(), bool) and hvd.gloo_enabled() is False
    for name in ("gloo_built", "ddl_built", "ccl_built", "rocm_built"):
        assert getattr(util, name)() is getattr(hvd, name)() is False
    assert util.nccl_built() == hvd.nccl_built() and isinstance(hvd.nccl_built(), int)
    assert util.cuda_built() == hvd.cuda_built() == tf.test.is_built_with_cuda()
    assert util.extension_available("tensorflow") and not util.extension_available("torch")
    assert util.gpu_available("tensorflow") == bool(tf.config.list_physical_devices("GPU"))
    assert util.gpu_available("torch") is False
    util.check_extension("horovod.tensorflow", "HOROVOD_WITH_TENSORFLOW", __file__, "mpi_lib")
    with pytest.raises(ImportError, match="TensorFlow and Keras"):
        hvd.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__, "mpi_lib_v2")
    util.check_installed_version("tensorflow", "0.1")


def test_numbers_and_lists():
    powers = [n for n in range(-2, 20) if util.num_rank_is_power_2(n)]
    assert powers == [1, 2, 4, 8, 16]
    assert hvd.check_num_rank_power_of_2(8)
    assert util.split_list(list(range(7)), 3) == [[0, 1, 2], [3, 4], [5, 6]]
    assert util.split_list([1], 2) == [[1], []]
    assert util.is_iterable((1,)) and not util.is_iterable(1)
    assert util.is_version_greater_equal_than("2.21.0", "2.4.0")
    assert not util.is_version_greater_equal_than("2.3", "2.3.1")
    with pytest.raises(ValueError, match="major.minor.patch"):
        util.is_version_greater_equal_than("2.3", "2.3")


def test_operation_or_average():
    chosen = util.get_average_backwards_compatibility_fun(hvd.mpi_ops)
    assert chosen(None, False) is hvd.Sum and chosen(hvd.Max, None) is hvd.Max
    assert hvd.handle_average_backwards_compatibility(None, None) is hvd.Average
    with pytest.raises(ValueError, match="op takes the place"):
        chosen(hvd.Sum, True)


def test_environment_for_a_while():
    os.environ["SCIML_PAR_TEST_ONE"] = "before"
    with util.env(SCIML_PAR_TEST_ONE="inside", SCIML_PAR_TEST_TWO="2"):
        assert os.environ["SCIML_PAR_TEST_ONE"] == "inside"
        assert os.environ["SCIML_PAR_TEST_TWO"] == "2"
    assert os.environ.pop("SCIML_PAR_TEST_ONE") == "before"
    assert "SCIML_PAR_TEST_TWO" not in os.environ


def test_of_tensorflow():
    assert hvd._executing_eagerly() is True
    assert tf.function(lambda: tf.constant(hvd.util._executing_eagerly()))() == False  # noqa: E712
    variables = [[tf.Variable(1.0)], tf.Variable(2.0)]
    refs = hvd.vars_to_refs(variables)
    hash(refs)
    back = hvd.refs_to_vars(refs)
    assert back[0][0] is variables[0][0] and back[1] is variables[1]
