"""The estimated error of a field in windows, window by window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_SHOWN = 6


@dataclass(frozen=True, eq=False)
class ErrorByWindow:
    """How large error and residual are in the part of each window; see `networks.Windows`.

    Attributes
    ----------
    lower, upper : corners of the parts, [K, d].
    error : root mean square of e over a part, relative to that of u over the domain,
        dimensionless; NaN in a part outside of the domain, or if the error is not known: [K].
    residual : the share of a part in the loss at unseen points, of sum 1: [K].
    """

    lower: FloatArray
    upper: FloatArray
    error: FloatArray
    residual: FloatArray

    @property
    def worst(self) -> int:
        """The number of the window with the largest share in the residual."""
        return int(np.argmax(self.residual))

    @property
    def known(self) -> bool:
        """Whether there is an error in some window."""
        return bool(np.any(self.error > 0))

    def __repr__(self) -> str:
        order = np.argsort(-self.residual)[:_SHOWN]
        count = np.count_nonzero(self.residual)
        rows = [f"ErrorByWindow: {count} windows, those with the largest residuals:"]
        rows.append(f"{'window':>8}  {'error':>8}  {'residual':>8}  part")
        for k in order:
            part = " × ".join(
                f"[{a:.4g}, {b:.4g}]" for a, b in zip(self.lower[k], self.upper[k], strict=True)
            )
            rows.append(f"{k:8}  {self.error[k]:8.1e}  {self.residual[k]:8.1%}  {part}")
        return "\n".join(rows)
