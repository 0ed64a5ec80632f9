"""Horovod's data service, which says what takes its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from sciml_par.errors import InputError


def _refuse(what: str) -> NoReturn:
    raise InputError(
        f"{what}: there is no data service. Give each rank its share by "
        f"dataset.shard(hvd.size(), hvd.rank()), or use tf.data.experimental.service itself."
    )


class TfDataServiceConfig:
    """In Horovod, where the data service is. Making one raises `InputError`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("TfDataServiceConfig")

    def compute_client(self, verbose: int = 1) -> Any:
        _refuse("compute_client")

    def to_dict(self) -> dict[str, Any]:
        _refuse("to_dict")

    @staticmethod
    def from_dict(config: Mapping[str, Any]) -> TfDataServiceConfig:
        """Raise `InputError`."""
        _refuse("TfDataServiceConfig")

    def write(self, filename: str) -> None:
        _refuse("write")

    @staticmethod
    def read(filename: str, wait_for_file_creation: bool = False) -> TfDataServiceConfig:
        """Raise `InputError`."""
        _refuse("TfDataServiceConfig")


def tf_data_service(compute_config: TfDataServiceConfig, rank: int) -> NoReturn:
    """Raise `InputError`: there is no data service."""
    _refuse("tf_data_service")


def send_to_data_service(
    dataset: Any,
    compute_config: TfDataServiceConfig,
    rank: int,
    size: int | None = None,
    processing_mode: str = "distributed_epoch",
    reuse_dataset: bool = False,
    round_robin: bool = False,
) -> NoReturn:
    """Raise `InputError`: there is no data service. (It is no method of tf.data.Dataset here.)"""
    _refuse("send_to_data_service")


def compute_worker_fn(compute_config: TfDataServiceConfig) -> NoReturn:
    """Raise `InputError`: there is no data service."""
    _refuse("compute_worker_fn")
