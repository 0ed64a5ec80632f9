"""The time of an allreduce from latency and bandwidth, fitted to measurements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sciml_par.errors import InputError
from sciml_par.evaluation._arrays import as_real


@dataclass(frozen=True)
class CommunicationModel:
    """The time of an allreduce of n bytes among P ranks, T(P, n) = α log₂ P + β n (P − 1)/P.

    The first term is the latency of log₂ P rounds of messages. The second
    is the bandwidth, with n (P − 1)/P the bytes that a rank sends in a reduce-scatter. A
    reduce-scatter by halving and an allgather by doubling take 2 log₂ P messages and send 2 n
    (P − 1)/P bytes (Thakur, Rabenseifner and Gropp 2005, Int. J. High Performance Computing
    Applications 19, 49–66, doi 10.1177/1094342005051521; the arithmetic is left out). So α is twice
    the latency of a message and β twice the time of a byte, in the cost of a message by Hockney
    (1994, Parallel Computing 20, 389–398).

    Parameters
    ----------
    latency : float
        α ≥ 0, in seconds.
    seconds_per_byte : float
        β ≥ 0.

    Raises
    ------
    InputError
        If one of them is negative or not finite.

    Examples
    --------
    >>> from sciml_par.evaluation import CommunicationModel
    >>> model = CommunicationModel(latency=1e-5, seconds_per_byte=1e-9)
    >>> float(model.seconds(4, 1e6))
    0.00077
    """

    latency: float
    seconds_per_byte: float

    def __post_init__(self) -> None:
        for name, value in (("latency", self.latency), ("seconds_per_byte", self.seconds_per_byte)):
            if not 0 <= value < np.inf:
                raise InputError(f"CommunicationModel: expected {name} ≥ 0; got {value}.")

    def seconds(self, ranks: ArrayLike, nbytes: ArrayLike) -> np.ndarray:
        """Return T(P, n), which is 0 for one rank (local).

        Parameters
        ----------
        ranks : array [k] or number
            P ≥ 1.
        nbytes : array [k] or number
            n ≥ 0.

        Returns
        -------
        array [k]
            In seconds.
        """
        p, n = _checked(ranks, nbytes)
        steps, share = _terms(p, n)
        return np.asarray(self.latency * steps + self.seconds_per_byte * share)

    def efficiency(
        self, ranks: ArrayLike, nbytes: float, computation: float, *, scaling: str
    ) -> np.ndarray:
        """Return E_P = T₁ / T_P in weak and T₁ / (P T_P) in strong scaling (local).

        A step computes and then adds up the gradient, and the two do not overlap:
        T_P = t + T(P, n) in weak scaling, where each rank has the work of one, and
        T_P = t/P + T(P, n) in strong scaling, where they divide it.

        Parameters
        ----------
        ranks : array [k]
            P ≥ 1.
        nbytes : float
            n, of the gradient.
        computation : float
            t > 0, the seconds of a step on one rank.
        scaling : {"weak", "strong"}

        Returns
        -------
        array [k]
            Dimensionless; 1 is ideal.

        Raises
        ------
        InputError
            If a number is out of its range, or `scaling` is unknown.
        """
        if scaling not in ("weak", "strong"):
            raise InputError(f"efficiency: expected scaling 'weak' or 'strong'; got {scaling!r}.")
        if not 0 < computation < np.inf:
            raise InputError(f"efficiency: expected computation > 0 seconds; got {computation}.")
        communication = self.seconds(ranks, nbytes)
        p, _ = _checked(ranks, nbytes)
        alone = computation if scaling == "weak" else computation / p
        return np.asarray(alone / (alone + communication))


def fit_communication(
    ranks: ArrayLike, nbytes: ArrayLike, seconds: ArrayLike
) -> CommunicationModel:
    """Fit the model to measured times of allreduces.

    Minimizes Σ_k (T(P_k, n_k)/T_k − 1)² over α, β ≥ 0: relative errors, because times of small and
    of large arrays differ by orders of magnitude.

    Parameters
    ----------
    ranks : array [k]
        P_k ≥ 2.
    nbytes : array [k]
        n_k ≥ 0; two different ones at least.
    seconds : array [k]
        T_k > 0.

    Returns
    -------
    CommunicationModel

    Raises
    ------
    InputError
        If the shapes differ, a number is out of its range, or there are too few to separate
        latency from bandwidth.

    Examples
    --------
    >>> from sciml_par.evaluation import fit_communication
    >>> model = fit_communication([2, 2], [0, 2e6], [1e-5, 1.01e-3])
    >>> round(model.latency, 12), round(model.seconds_per_byte, 15)
    (1e-05, 1e-09)
    """
    p, n = _checked(ranks, nbytes)
    t = as_real(seconds, "seconds")
    if p.ndim != 1 or not p.shape == n.shape == t.shape:
        raise InputError(
            f"fit_communication: expected ranks, nbytes and seconds of one shape [k]; got "
            f"{list(p.shape)}, {list(n.shape)} and {list(t.shape)}."
        )
    if not np.all((t > 0) & np.isfinite(t)):
        raise InputError(f"fit_communication: expected finite seconds > 0; got {t.tolist()}.")
    if np.any(p < 2):
        raise InputError(f"fit_communication: one rank has no allreduce; got ranks {p.tolist()}.")
    columns = np.stack(_terms(p, n), axis=1) / t[:, np.newaxis]
    scale = np.linalg.norm(columns, axis=0)
    if columns.size == 0 or scale[1] == 0 or np.linalg.matrix_rank(columns / scale) < 2:
        raise InputError(
            "fit_communication: latency and bandwidth cannot be told apart; measure two sizes or "
            f"more; got nbytes {n.tolist()} on ranks {p.tolist()}."
        )
    from scipy.optimize import nnls

    found, _ = nnls(columns / scale, np.ones(len(t)))
    latency, seconds_per_byte = found / scale
    return CommunicationModel(float(latency), float(seconds_per_byte))


def _terms(p: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the factors of α and β."""
    return np.broadcast_arrays(np.log2(p), n * (p - 1) / p)  # type: ignore[return-value]


def _checked(ranks: ArrayLike, nbytes: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    p, n = as_real(ranks, "ranks"), as_real(nbytes, "nbytes")
    # Written so that a nan fails, as no comparison with it is true.
    if not np.all((p >= 1) & (p % 1 == 0)):
        raise InputError(f"ranks: expected whole numbers ≥ 1; got {p.tolist()}.")
    if not np.all((n >= 0) & np.isfinite(n)):
        raise InputError(f"nbytes: expected finite numbers ≥ 0; got {n.tolist()}.")
    return p, n
