"""What a training found: numbers on every rank, arrays on rank 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.results.files import write_results
from sciml_par.results.folder import claim_folder
from sciml_par.results.member import FINISHED, Member
from sciml_par.results.table import print_table, remarks


@dataclass(frozen=True)
class Result:
    """What a training found.

    Numbers, such as losses and errors, are the same on every rank. The arrays of a prediction are
    on rank 0 and on the ranks that trained the member, in mode "data" on all; so are samples of
    the training points.

    Attributes
    ----------
    mode : "data" or "ensemble".
    members : all trained models; one in mode "data".
    networks : this rank's trained networks, as Keras models: they predict, save and load as such.
    communicator : the ranks that trained.
    """

    mode: str
    members: tuple[Member, ...]
    networks: Sequence[Any]
    communicator: Communicator

    @property
    def ranks(self) -> int:
        """How many ranks trained."""
        return self.communicator.size

    @property
    def sound(self) -> bool:
        """Whether all members came to their end, none of them with a loss far above its best."""
        return all(member.status == FINISHED for member in self.members)

    def print(self) -> None:
        """Print the table of errors and times, on rank 0 alone (local).

        Under it stands which members ended before, have diverged, or were brought together.
        """
        if self.communicator.rank == 0:
            print_table(self.members, mode=self.mode)

    @property
    def remarks(self) -> list[str]:
        """What is to be said of members that did not simply finish, a sentence each."""
        return remarks(self.members, mode=self.mode)

    def save(
        self,
        directory: str | Path,
        *,
        overwrite: bool = False,
        plots: bool = True,
        title: str | None = None,
        arguments: dict[str, Any] | None = None,
    ) -> Path:
        """Write results.json, predictions.npz, history.csv and the figures (collective).

        Rank 0 writes; each file appears whole or not at all.

        Parameters
        ----------
        directory : is made if it is not there.
        overwrite : allow a folder that holds the results of another run.
        plots : write the figures, as PNG and PDF.
        title : of the figures.
        arguments : what the program was asked for, kept in results.json.

        Returns
        -------
        The folder.

        Raises
        ------
        OutputError
            The folder holds results, or cannot be written; on all ranks.
        """

        def write() -> Path:
            folder = claim_folder(Path(directory), overwrite=overwrite)
            write_results(
                self.members,
                folder,
                mode=self.mode,
                plots=plots,
                title=title,
                arguments=arguments or {},
            )
            return folder

        return self.communicator.on_root(write)
