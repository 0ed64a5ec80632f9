"""What tells one training from another, for a comparison between ranks and on resume."""

from __future__ import annotations

from dataclasses import dataclass

from sciml_par.training.preparation.description import Description

# What may be otherwise in the training that goes on; optimizers and steps are compared by phases.
_MAY_DIFFER = ("log_every", "evaluation_points", "evaluation_domain", "keep", "steps", "stop")


@dataclass(frozen=True)
class Identity:
    """What tells one training from another.

    Attributes
    ----------
    run : what describes it, on all ranks.
    members : what describes each member of this group, in the order of their numbers.
    steps : of the phases.
    stop : what ends members by themselves.
    scattered : whether points whose method was left open are Sobol's.
    """

    run: Description
    members: tuple[Description, ...]
    steps: tuple[int, ...]
    stop: str
    scattered: bool

    @property
    def phases(self) -> list[Description]:
        """What describes the optimizer of each phase."""
        first = self.members[0]
        return [
            {
                name.removesuffix(ending) + "optimizer": text
                for name, text in first.items()
                if name.endswith(ending)
            }
            for ending in self._endings
        ]

    @property
    def fixed(self) -> list[Description]:
        """What must be the same where a training goes on: of the run, and of each member."""
        run = {name: text for name, text in self.run.items() if name not in _MAY_DIFFER}
        members = [
            {name: text for name, text in member.items() if not name.endswith(self._endings)}
            for member in self.members
        ]
        return [run, *members]

    @property
    def _endings(self) -> tuple[str, ...]:
        """How the names end that describe the optimizers; see `describe_model`."""
        if len(self.steps) == 1:
            return ("optimizer",)
        return tuple(f"optimizer of phase {k + 1}" for k in range(len(self.steps)))
