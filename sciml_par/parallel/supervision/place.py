"""Where in its source the program of this rank is, for those who wait for the rank."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import threading
from pathlib import Path

_INSTALLED = (sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
_FOLDERS = (str(Path(__file__).parents[2]), *_INSTALLED)
_LIBRARIES = (*(os.path.join(folder, "") for folder in _FOLDERS), "<frozen ")


def place_of_program() -> str:
    """The line at which the main thread is, or has called what it is in, as `file:line, in text`.

    That is the innermost line which lies in no library; empty if there is none.
    """
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    if frame is None:
        return ""
    path = frame.f_code.co_filename
    text = linecache.getline(path, frame.f_lineno).strip()
    return f"{Path(path).name}:{frame.f_lineno}" + (text and f", in {text}")
