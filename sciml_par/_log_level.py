"""The log level of TensorFlow, which it reads once, when it is imported.

Programs import TensorFlow or Keras before they call `init`, in the order that formatters make. So
this is set when the package is imported, unless the user has set it or TensorFlow is there already.
"""

from __future__ import annotations

import os
import sys

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
ALL, ONLY_FATAL = "0", "3"
IS_OURS = "tensorflow" not in sys.modules and LOG_LEVEL not in os.environ

if IS_OURS:
    os.environ[LOG_LEVEL] = ONLY_FATAL
