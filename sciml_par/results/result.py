"""What a training found: numbers on every rank, arrays on rank 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from operator import getitem
from pathlib import Path
from typing import Any, SupportsIndex

from sciml_par._checks import checked_integer
from sciml_par._files import checked_path
from sciml_par._other_names import OtherAttributes, by_name
from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.results.changed import all_with_weights, check_alike, merge_members
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.exports.sampled import Sampler, dataframe, dataset
from sciml_par.results.exports.written import write_solution
from sciml_par.results.found import unknowns_of
from sciml_par.results.linearized_bands import check_level, linearized_uncertainty
from sciml_par.results.member import FINISHED, History, Member, ranks_of
from sciml_par.results.predict import EnsemblePrediction, Predictor, field_of_member, kept_weights
from sciml_par.results.stored.files import load, write_results
from sciml_par.results.stored.folder import claim_folder
from sciml_par.results.stored.keras_models import Lazy, copy_with
from sciml_par.results.table import print_table
from sciml_par.results.text import remarks, text_of
from sciml_par.results.uncertainty import LINEARIZED, METHODS, Uncertainty


@dataclass(frozen=True, eq=False)
class Result(OtherAttributes):
    """What a training found.

    Numbers, such as losses and errors, are the same on every rank. The arrays of a prediction are
    on rank 0 and on the ranks that trained the member, in mode "data" on all; so are weights, and
    samples of the training points.

    Attributes
    ----------
    mode : "data" or "ensemble".
    members : all trained models; one in mode "data".
    networks : this rank's trained networks, as Keras models: they predict, save and load as such.
        Of loaded results those of all members, each loaded when it is asked for.
    communicator : the ranks that trained; None for loaded results, which are of this process.
    arguments : what was asked for, as numbers and texts.
    resample : trains again for `uncertainty`; None of loaded results and of ensembles.
    """

    mode: str
    members: tuple[Member, ...]
    networks: Sequence[Any]
    communicator: Communicator | None = None
    _: KW_ONLY
    arguments: dict[str, Any] = field(default_factory=dict)
    resample: Callable[..., Uncertainty] | None = field(default=None, repr=False)

    @property
    def ranks(self) -> int:
        """The number of ranks that trained."""
        return len(ranks_of(self.members))

    @property
    def sound(self) -> bool:
        """Whether all members finished, none of them with a loss far above its best."""
        return all(member.status == FINISHED for member in self.members)

    @property
    def history(self) -> tuple[History, ...]:
        """The recorded losses of each member, with the terms by name."""
        return tuple(member.history for member in self.members)

    @property
    def unknowns(self) -> dict[str, Any]:
        """The unknowns by name: mean and deviation over the members, and what each found.

        A number or an array of these is a `FoundUnknown`; a function is a `FoundFunction`, which
        is called at points.
        """
        return dict(unknowns_of(self.members))

    @property
    def error(self) -> ErrorEstimate:
        """The estimated error of the solution, or of an ensemble the largest of its members.

        `train(estimate=True)` and `sciml_par.solve` make estimates. An error that is not known
        has `known` False and a `reason`.
        """
        estimates = [member.error for member in self.members]
        known = [each for each in estimates if each is not None and each.known]
        if len(known) == len(estimates):
            return max(known, key=lambda each: each.relative)
        unknown = next((e for e in estimates if e is not None and not e.known), None)
        outputs = len(self.members[0].prediction.fields)
        why = "no estimate was asked for; train(…, estimate=True) makes one."
        return unknown or ErrorEstimate.not_known(outputs, why)

    @property
    def loss(self) -> float:
        """The loss of the weights that predict; of an ensemble the largest of its members."""
        return max(member.kept_loss for member in self.members)

    @property
    def relative_l2_error(self) -> float:
        """‖u − u*‖/‖u*‖ at the points of the evaluation; of an ensemble the largest of its members.

        Dimensionless; NaN where the exact solution u* is not known.
        """
        errors = [member.on_own_domain.relative_l2_error for member in self.members]
        return max(errors, key=lambda error: (not math.isnan(error), error))

    @property
    def remarks(self) -> list[str]:
        """Remarks on members that did not simply finish, a sentence each."""
        return remarks(self.members, mode=self.mode)

    def __repr__(self) -> str:
        return text_of(self.members, mode=self.mode)

    def _repr_html_(self) -> str:
        """Return the same as HTML, with the figure of the predictions, as notebooks show it."""
        from sciml_par.results.stored.figures import html_of  # it imports Matplotlib

        return html_of(self.members, repr(self), mode=self.mode)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        if self.communicator is not None:
            raise InputError(
                "Result: what a training returns belongs to its ranks, and cannot be pickled or "
                "copied. result.save(folder) writes what Result.load(folder) reads in any process."
            )
        return super().__reduce_ex__(protocol)

    def print(self) -> None:
        """Print the table of errors and times, on rank 0 alone (local).

        Remarks on members that ended early, diverged or drifted apart follow. Of more than 16
        members, it shows the first rows, those that did not finish, and the ranges.
        """
        if self.communicator is None or self.communicator.rank == 0:
            print_table(self.members, mode=self.mode)

    @by_name
    def plot(self, path: str | Path | None = None, *, title: str | None = None) -> Any:
        """Return a figure of the solution, which `save` writes as well (local).

        Parameters
        ----------
        path : a file for the figure, such as "u.png" or "u.pdf"; rank 0 writes or replaces it.
        title : of the figure.

        Returns
        -------
        A matplotlib.figure.Figure; over space and time it has the solution at four times.

        Raises
        ------
        InputError
            The predictions are on rank 0 alone, or have more coordinates than a figure can show;
            or Matplotlib does not know the ending of the path.
        OutputError
            The file cannot be written.
        """
        from sciml_par.results.stored.figures import figure_of, write_figure

        figure = figure_of(self.members, mode=self.mode, title=title)
        if path is not None and (self.communicator is None or self.communicator.rank == 0):
            write_figure(figure, checked_path(path, "Result.plot"))
        return figure

    @by_name
    def predict(
        self, x: Any, *, batch_size: int | None = None, interval: float | None = None
    ) -> EnsemblePrediction:
        """Predict at any points, with the weights that are kept (local).

            mean = (1/M) Σ_j u(x; θ_j)        deviation² = 1/(M − 1) Σ_j (u(x; θ_j) − mean)²

        over the M members that finished, or over all if none finished. A member whose loss became
        infinite is included if its weights are no worse than those of a member that finished. It
        works on rank 0, in mode "data" on all ranks, and for loaded and merged results.

        Parameters
        ----------
        x : the points, [n, d], as an array or a list of rows; [n] or one number where d = 1.
        batch_size : points computed at a time; by default those of 262,144 values of all members.
            The memory grows with it, not with n.
        interval : a probability, such as 0.95, for `lower` and `upper`. Of one model they are the
            bands of `uncertainty`. Of an ensemble they are those of its members: a further one,
            trained likewise, would lie between them with this probability. So they hold
            the truth as often only where members differ as the truth may: with `bootstrap=True`,
            for errors of the observations; never for errors of the equations or of the training
            that all members share. They are quantiles of the members where at least 2.5 of them
            lie beyond each end (100 members for 0.95). With fewer members they are mean ± t
            deviation √(1 + 1/M), with Student's t of M − 1 degrees of freedom, as for normal
            values.

        Returns
        -------
        An object with `mean` [n, m], `deviation` [n, m] (NaN for one member) and `members`
        [M, n, m], which is computed at its first use; in the precision of the training. `lower`
        and `upper` [n, m] are None without `interval`.
        `error` [n, m] is the estimated error of one model, NaN if unknown.

        Raises
        ------
        InputError
            x has another shape, or weights or networks of members are not on this rank. `interval`
            is not a probability, or of one model nothing is known: see `uncertainty`.

        Warns
        -----
        RuntimeWarning
            Members are left out because they did not finish, or points lie outside of the box
            around the domain of the training.

        Examples
        --------
        >>> import numpy as np
        >>> import sciml_par as sp
        >>> sp.init()
        >>> problem = sp.problems.poisson(k=1)
        >>> result = sp.train(problem, mode="ensemble", steps=10, progress=False)
        >>> result.predict(np.linspace(-1, 1, 5)).mean.shape
        (5, 1)
        """
        if interval is None or len(self.members) > 1:
            return self._predictor.predict(x, batch_size=batch_size, interval=interval)
        bands = self.uncertainty(check_level(interval, "Result.predict: interval")).bands(x)
        found = self._predictor.predict(x, batch_size=batch_size)
        found.interval, (found.lower, found.upper) = interval, bands
        return found

    @by_name
    def evaluate(
        self, f: Callable[..., Any], x: Any, *, batch_size: int | None = None
    ) -> EnsemblePrediction:
        """Compute a function of the solution at any points, with the weights that are kept (local).

            f(u(·; θ_j), x) of each member j, with mean and deviation as in `predict`

        as a derivative, a flux, a stress, or the residual of an equation. Points are computed in
        batches, so that there may be millions.

        Parameters
        ----------
        f : function
            f(u, x) -> [n, k] or [n], as a residual: TensorFlow operations and this package's
            operators. Further arguments with names of unknowns, as in ``f(u, x, D)``, get the
            values that the member found.
        x : the points, [n, d], as in `predict`.
        batch_size : points computed at a time.

        Returns
        -------
        What `predict` returns, with `mean` [n, k], `deviation` [n, k] and `members` [M, n, k].
        `error` [n, k] is |f(u + e) − f(u)| with the estimated error e of one model. NaN if that is
        not known, of a loaded result, and where u has components that are not determined.

        Raises
        ------
        InputError
            f is not a function, takes other arguments, or returns no row for each point; or as in
            `predict`.

        Examples
        --------
        >>> import numpy as np
        >>> import sciml_par as sp
        >>> sp.init()
        >>> problem = sp.problems.poisson(k=1)
        >>> result = sp.train(problem, steps=10, progress=False)
        >>> slope = lambda u, x: sp.problems.derivative(u, x, 0)
        >>> result.evaluate(slope, np.linspace(-1, 1, 5)).mean.shape
        (5, 1)
        """
        from sciml_par.results.evaluate import FunctionPredictor  # it imports operators

        return FunctionPredictor(self.members, f).predict(x, batch_size=batch_size)

    @by_name
    def to_dataframe(
        self,
        points: Any = None,
        *,
        quantities: Mapping[str, Callable[..., Any]] | None = None,
        interval: float | None = None,
    ) -> Any:
        """Return the solution at points as a pandas.DataFrame (local).

        Columns: the coordinates, each component and quantity, and of each u also ``u_error``, the
        estimated error (NaN if it is not known), ``u_deviation`` of ensembles, and of components
        ``u_lower`` and ``u_upper`` if an interval is asked for.

        Parameters
        ----------
        points : [n, d], or a DataFrame with columns of the coordinates' names; by default the
            points of the evaluation.
        quantities : functions f(u, x) by name, as for `evaluate`; further columns.
        interval : a probability, as for `predict`.

        Raises
        ------
        InputError
            pandas is not installed (``pip install 'sciml-par[files]'``); or as in `predict`.
        """
        sampler = Sampler(self, "Result.to_dataframe", quantities, interval)
        return dataframe(sampler, points)

    @by_name
    def to_xarray(
        self,
        grid: Any = 50,
        *,
        quantities: Mapping[str, Callable[..., Any]] | None = None,
        interval: float | None = None,
        domain: Any = None,
    ) -> Any:
        """Return the solution on a grid as an xarray.Dataset (local).

        Parameters
        ----------
        grid : a number of points along each coordinate of the box around the domain, a tuple with
            one for each, or a dict with the values of each coordinate by name.
        quantities, interval : as for `to_dataframe`, with the same names.
        domain : a `Domain`; at points outside, all values are NaN. By default values outside of
            the problem's domain are those of the network, which extrapolates.

        Raises
        ------
        InputError
            xarray is not installed (``pip install 'sciml-par[files]'``); or as in `predict`.
        """
        return dataset(Sampler(self, "Result.to_xarray", quantities, interval), grid, domain)

    @by_name
    def write(
        self,
        path: str | Path,
        on: Any = None,
        *,
        quantities: Mapping[str, Callable[..., Any]] | None = None,
        interval: float | None = None,
        times: Any = None,
        domain: Any = None,
        overwrite: bool = False,
    ) -> Path:
        """Write the solution to a file for other programs; rank 0 writes (collective).

        The ending decides: ``.vtu``, ``.vtk`` and ``.xdmf`` are meshes for ParaView, ``.pvd`` a
        series of them in time, ``.nc`` a grid for xarray, ``.csv`` a table. Arrays have the names
        of `to_dataframe`.

        Parameters
        ----------
        path : the file.
        on : a grid as for `to_xarray`, points [n, d], or for meshes a meshio.Mesh or the path of a
            mesh that meshio reads. A .pvd takes those of space, without the time.
        quantities, interval : as for `to_dataframe`. A mesh has a vector [n, 3] of each quantity of
            two or three components.
        times : of a .pvd, in increasing order; by default eleven over the domain's interval.
        domain : a `Domain`; cells with corners outside are left out, and grids are NaN there.
        overwrite : whether an existing file is replaced.

        Returns
        -------
        The path.

        Raises
        ------
        InputError
            Another ending, a mesh that cannot be read, a package that is not installed; or as in
            `predict`.
        OutputError
            The file exists, or cannot be written; on all ranks.
        """

        def write() -> Path:
            sampler = Sampler(self, "Result.write", quantities, interval)
            return write_solution(
                sampler,
                checked_path(path, "Result.write"),
                on,
                times=times,
                domain=domain,
                overwrite=overwrite,
            )

        return write() if self.communicator is None else self.communicator.on_root(write)

    @by_name
    def uncertainty(
        self,
        level: float = 0.95,
        *,
        method: str = LINEARIZED,
        members: int = 64,
        member: int | None = None,
    ) -> Uncertainty:
        """Return how well the data determine unknowns and solution (local; else collective).

        It was computed at the end of the training, and takes observations with known errors,
        `Observations(…, noise=σ)`. See `Uncertainty` for the formula.

        Parameters
        ----------
        level : of intervals and bands, in (0, 1), dimensionless.
        method : "linearized"; or, where u is not linear in them within errors, "randomized", the
            spread of members that are trained from here on data perturbed by errors of their
            deviation, or "profile", the rise of χ² where an unknown is held at other values. These
            two train again, on all ranks, and are collective.
        members : how many of these "randomized" trains.
        member : the number of the member of an ensemble; each has other intervals.

        Returns
        -------
        Intervals of all unknowns, their covariance, and bands at any points.

        Raises
        ------
        InputError
            The level is not in (0, 1), or there are several members and none is named.
        """
        checked = check_level(level, "Result.uncertainty")
        by_number = {each.number: each for each in self.members}
        if member is None and len(by_number) > 1 or member is not None and member not in by_number:
            numbers = f"0 to {max(by_number)}" if len(by_number) > 1 else "0"
            raise InputError(
                f"Result.uncertainty: expected the number of one of the members, {numbers}, as "
                f"member=0; got {member!r}."
            )
        chosen = self.members[0] if member is None else by_number[member]
        linear = linearized_uncertainty(chosen, checked)
        if not isinstance(method, str) or method not in METHODS:
            expected = ", ".join(map(repr, METHODS))
            raise InputError(
                f"Result.uncertainty: expected method to be one of {expected}; got {method!r}."
            )
        if method == LINEARIZED:
            return linear
        if self.resample is None:
            raise InputError(
                f"Result.uncertainty: method={method!r} trains again, which a result can that "
                f"train has returned for one model that all ranks trained; a loaded one or an "
                f"ensemble has method='linearized'."
            )
        count = checked_integer(members, "Result.uncertainty: members", least=3)
        return self.resample(chosen, linear, method=method, members=count)

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(self.members)

    @by_name
    def using(self, weights: str) -> Result:
        """Return the same result with the best or the last weights of each member (collective).

        Predictions, their errors, `predict`, `networks` and what is saved are those of these
        weights; losses and times remain.

        Parameters
        ----------
        weights : "best", those with the least loss, or "last", those after the last update. What
            is asked for in `train(keep=…)` is what a training returns.

        Raises
        ------
        InputError
            Another word, or a network is not on rank 0; on all ranks.
        """
        if weights not in ("best", "last"):
            raise InputError(f"Result.using: expected 'best' or 'last'; got {weights!r}.")
        members = all_with_weights(self.members, weights, self.communicator)
        return replace(self, members=members, networks=self._copies(members))

    def _copies(self, members: Sequence[Member]) -> Lazy:
        """Return copies of the networks of this rank's members, with the weights that they keep."""
        mine = members
        if self.communicator is not None:
            rank = self.communicator.rank
            mine = [m for m in members if rank in ranks_of([m])]
        return Lazy([partial(_network_of, member) for member in mine])

    @by_name
    def save(
        self,
        directory: str | Path,
        *,
        overwrite: bool = False,
        plots: bool = True,
        title: str | None = None,
        arguments: dict[str, Any] | None = None,
    ) -> Path:
        """Write results.json, arrays, histories, networks and the figures (collective).

        Rank 0 writes; each file appears whole or not at all. A loaded result is written by the
        process that calls.

        Parameters
        ----------
        directory : created if it does not exist.
        overwrite : allow a folder that holds the results of another run.
        plots : write the figures, as PNG and PDF.
        title : of the figures.
        arguments : what the program was asked for, kept in results.json; by default what `train`
            was.

        Returns
        -------
        The folder.

        Raises
        ------
        OutputError
            The folder holds results, or cannot be written; on all ranks.
        """

        def write() -> Path:
            folder = claim_folder(checked_path(directory, "Result.save"), overwrite=overwrite)
            write_results(
                self.members,
                folder,
                mode=self.mode,
                plots=plots,
                title=title,
                arguments=self.arguments if arguments is None else arguments,
            )
            return folder

        return write() if self.communicator is None else self.communicator.on_root(write)

    @staticmethod
    @by_name
    def load(directory: str | Path, *, problem: Any = None, network: Any = None) -> Result:
        """Load the files that `save` wrote, without ranks and without `init` (local).

        Parameters
        ----------
        directory : the folder.
        problem : the `Problem`, or a list with one for each member; needed to predict where it has
            an ansatz, and compared with what the files hold of it.
        network : the Keras model, or what makes it, called as in `train`; needed to predict where
            Keras could not save it.

        Returns
        -------
        All members with their histories, predictions and weights. Its communicator is None:
        `predict`, `print` and `save` are of the process that calls.

        Raises
        ------
        InputError
            The folder holds no results, or not as they were written, or files of another format.
        """
        mode, arguments, members = load(
            checked_path(directory, "Result.load"), problem=problem, network=network
        )
        read = Result(mode, members, [], arguments=arguments)
        return replace(read, networks=read._copies(members))

    @staticmethod
    def merge(results: Sequence[Result]) -> Result:
        """Merge the members of several results into one (collective; local for loaded results).

        Parameters
        ----------
        results : of several calls of `train` in one job, or loaded ones; all evaluated on the same
            points.

        Returns
        -------
        A result of mode "ensemble", whose members are numbered anew in order.

        Raises
        ------
        InputError
            There are no results, or they do not fit; on all ranks.
        """
        given = list(results)
        if not given or not all(isinstance(each, Result) for each in given):
            raise InputError(
                f"Result.merge: expected a list of results, of train or Result.load; got "
                f"{results!r}."
            )
        communicators = {each.communicator for each in given} - {None}
        if len(communicators) > 1:
            raise InputError("Result.merge: expected results of one group of ranks; got several.")
        communicator = next(iter(communicators), None)
        groups = [each.members for each in given]
        check = partial(check_alike, groups)
        check() if communicator is None else communicator.attempt(check)
        return Result(
            "ensemble",
            merge_members(groups),
            Lazy([partial(getitem, r.networks, i) for r in given for i in range(len(r.networks))]),
            communicator,
            arguments={"merged": [each.arguments for each in given]},
        )


def _network_of(member: Member) -> Any:
    return copy_with(field_of_member(member).model, kept_weights(member))
