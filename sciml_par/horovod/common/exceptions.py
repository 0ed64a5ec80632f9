"""Horovod's exceptions, for programs that catch them. sciml_par raises its own (`errors.py`)."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """In Horovod, a collective that fails because a rank is gone.

    Never raised here: when a rank is gone, the job ends with a message that names it.
    """


class HostsUpdatedInterrupt(RuntimeError):
    """In Horovod, the news that hosts have come or gone. Never raised here.

    Parameters
    ----------
    skip_sync : whether the ranks' states are equal already.
    """

    def __init__(self, skip_sync: bool) -> None:
        super().__init__()
        self.skip_sync = skip_sync


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    """What to say where Horovod was built against another version of a framework."""
    return (
        f"Built with {name} {version}, but {name} {installed_version} is installed. sciml_par is "
        f"not built against {name}: install the version that you want."
    )


class HorovodVersionMismatchError(ImportError):
    """In Horovod, a framework of another version than it was built with. Never raised here."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
