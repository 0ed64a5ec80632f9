"""Arrays with masks, which NumPy drops where it makes ordinary arrays of them."""

from __future__ import annotations

from typing import Any

import numpy as np


def with_gaps(values: Any) -> Any:
    """Return a masked array with NaN for what is masked, and all else as it is."""
    if not isinstance(values, np.ma.MaskedArray) or values.dtype.kind not in "fiu":
        return values
    return np.ma.filled(values.astype(np.float64), np.nan)
