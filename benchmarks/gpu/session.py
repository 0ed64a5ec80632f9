"""The check as a whole, stage by stage: each in processes of its own, which may hang or crash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpu import machine
from gpu.job import WHOLE, Job, Started, rows_of, start, wait
from gpu.record import Budget
from gpu.report import MACHINE, SKIPPED, Row, merged, table
from gpu.stages import Stage, gpu_stages, rehearsal

_LOOK_SECONDS = 75.0
_ATTEMPTS = 4
_MARGIN = 12.0  # between the last check that a process begins and its end


class Session:
    """Runs all stages, and prints each when it is done.

    Parameters
    ----------
    folder : for files of its own.
    rehearse : the arena to rehearse with on the CPU; None to check the GPU.
    patience : seconds after which a check is taken to hang.
    """

    def __init__(
        self, folder: Path, budget: Budget, *, rehearse: str | None, patience: float
    ) -> None:
        self._folder = folder
        self._budget = budget
        self._rehearse = rehearse
        self._patience = patience
        self.rows: list[Row] = []

    def run(self) -> list[Row]:
        """All stages; their rows."""
        self._look()
        arena = self._arena()
        if arena is None:
            return self.rows
        stages = rehearsal() if self._rehearse else gpu_stages(self.rows, arena)
        for i, stage in enumerate(stages):
            later = sum(s.seconds for s in stages[i + 1 :] if not s.obstacle)
            self.run_stage(stage, arena, self._budget.share(stage.seconds, reserve=later))
        return self.rows

    def run_stage(self, stage: Stage, arena: str, seconds: float) -> None:
        """Add a stage's rows. What hangs or crashes a process is left out in the next one."""
        if stage.obstacle or seconds <= _MARGIN:
            reason = stage.obstacle or "out of time"
            self._add([Row(stage.name, "everything", SKIPPED, reason)])
            return
        budget = Budget(seconds)
        rows: list[Row] = []
        for attempt in range(_ATTEMPTS):
            found = self._attempt(stage, arena, budget.left, rows, attempt)
            rows += found
            ended_early = any("log" in row.numbers for row in found)
            if not ended_early or found[-1].what == WHOLE or budget.left <= _MARGIN:
                break
        self._add(rows)

    def _look(self) -> None:
        """See what there is, all parts at once."""
        seconds = self._budget.share(_LOOK_SECONDS)
        jobs = [
            Job(MACHINE, "look", part, str(self._folder / f"look.{part}"), seconds)
            for part in machine.LOOKS
        ]
        outs = [Path(job.out) for job in jobs]
        logs = [path.with_name(f"{path.name}.log") for path in outs]
        starts = zip(jobs, logs, strict=True)
        processes = [start(job.command, log, {}) for job, log in starts]
        reason = wait(processes, seconds, outs=outs, patience=seconds)
        ends = zip(jobs, outs, processes, strict=True)
        found = [row for each in ends for row in rows_of(*each, reason)]
        self._add(found)

    def _arena(self) -> str | None:
        if self._rehearse:
            print(f"\nA REHEARSAL on the CPU with {self._rehearse}: nothing here is about GPUs.")
            return self._rehearse
        arena, missing = machine.choose_arena(self.rows)
        if missing:
            print(f"\nmissing{', to check more' if arena else ', so that nothing can be checked'}:")
            print("\n".join(f"  {line}" for line in missing), flush=True)
        return arena

    def _attempt(
        self, stage: Stage, arena: str, seconds: float, before: Sequence[Row], attempt: int
    ) -> list[Row]:
        """Start the ranks of a stage, and gather what they have found."""
        out = self._folder / f"{stage.task}.{stage.ranks}.{attempt}"
        job = Job(
            stage.name,
            stage.task,
            arena,
            str(out),
            seconds - _MARGIN,
            size=stage.ranks,
            meeting=f"{out}.meeting",
            rehearse=bool(self._rehearse),
            done=tuple(row.what for row in before),
        )
        outs = [out.with_name(f"{out.name}.{rank}") for rank in range(stage.ranks)]
        processes = self._started(job, outs, stage.environment, self._by_mpi(arena))
        reason = wait(processes, seconds, outs=outs, patience=self._patience)
        ends = zip(outs, processes, strict=True)
        return merged([rows_of(job, path, process, reason) for path, process in ends])

    @staticmethod
    def _started(
        job: Job, outs: Sequence[Path], environment: Sequence[Mapping[str, str]], by_mpi: bool
    ) -> list[Started]:
        """The process of each rank; several ranks by MPI have one in common, the launcher."""
        if by_mpi and job.size > 1:
            launcher = [str(machine.mpirun()), "-np", str(job.size)]
            log = Path(f"{job.out}.log")
            return [start([*launcher, *job.command], log, environment[0])] * job.size
        ranks = zip(range(job.size), outs, environment, strict=True)
        return [
            start(replace(job, rank=rank).command, Path(f"{path}.log"), each)
            for rank, path, each in ranks
        ]

    def _by_mpi(self, arena: str) -> bool:
        return arena == "tensorflow" or bool(self._rehearse)

    def _add(self, rows: list[Row]) -> None:
        self.rows += rows
        print(table(rows), flush=True)
