"""Which rank a launcher gave to a process, as its environment says it."""

from __future__ import annotations

import pytest

from sciml_par.parallel.startup.launcher_environment import launched_rank, launched_size


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, None),
        ({"PMI_RANK": "0"}, 0),
        ({"PMIX_RANK": "3"}, 3),
        ({"OMPI_COMM_WORLD_RANK": "12"}, 12),
        ({"PMI_RANK": ""}, None),
        ({"SLURM_PROCID": "2"}, 2),
    ],
    ids=str,
)
def test_the_rank(environment: dict[str, str], rank: int | None) -> None:
    assert launched_rank(environment) == rank


def test_the_shell_of_a_batch_job_of_slurm_is_no_rank_but_what_it_launches_is() -> None:
    shell = {"SLURM_PROCID": "0"}
    assert launched_rank(shell) is None
    assert [launched_rank({**shell, "PMI_RANK": number}) for number in "01"] == [0, 1]


@pytest.mark.parametrize(
    ("environment", "size"),
    [
        ({}, None),
        ({"PMI_SIZE": "4"}, 4),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, 2),
        ({"PMI_SIZE": ""}, None),
    ],
    ids=str,
)
def test_the_number_of_processes(environment: dict[str, str], size: int | None) -> None:
    assert launched_size(environment) == size
