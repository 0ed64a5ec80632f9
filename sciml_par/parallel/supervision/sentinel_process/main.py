"""The program of the sentinel's process."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from typing import Any

from .other_hosts import Neighbours
from .watch import Watch


def main() -> None:
    """Take the settings from standard input, leave the rank that started this, and watch."""
    settings: dict[str, Any] = json.load(sys.stdin)
    listener = socket.socket(fileno=settings.pop("listener"))
    size = settings.pop("size")
    settings["hubs"] = [socket.socket(fileno=number) for number in settings["hubs"]]
    if settings["link"] is not None:
        settings["link"] = socket.socket(fileno=settings["link"])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    # Nobody's child: the rank has no zombie to collect, and none of its own waits meets it.
    if os.fork():
        os._exit(0)
    os.chdir("/")
    Watch(size=size, listener=listener, neighbours=Neighbours(**settings)).run()
    os._exit(0)
