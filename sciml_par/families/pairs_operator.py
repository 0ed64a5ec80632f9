"""An operator that was learned from pairs of functions: answers, their bands, and files."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._files import checked_path, write_whole
from sciml_par._other_names import OtherAttributes, by_name
from sciml_par.errors import InputError, ResultWarning
from sciml_par.families.branch import Branch
from sciml_par.families.learned import Components, Judged, Learned, Regression, Side
from sciml_par.families.pairs import checked_values
from sciml_par.networks.models.fno import FNO
from sciml_par.parallel.groups.world import current_world
from sciml_par.training.optimizers.least_squares.on_host import threads

Array = npt.NDArray[np.float64]

_FILE, _OTHER = "pairs.npz", "operator.npz"


@dataclass(frozen=True, eq=False)
class PairsAnswer:
    """Outputs of a `PairsOperator` for one input, or for Q of them.

    Attributes
    ----------
    mean : values of the output, [*grid] or [*grid, m] as in the pairs; [Q, …] of many.
    band : the root mean square over the grid by which the truth differs from `mean` at most, with
        a probability of 90 %, in units of the output; of the whole function and not of a point.
        A number, [m], [Q] or [Q, m]. NaN outside of the data.
    relative : the same, divided by the size of `mean`: a number or [Q], dimensionless.
    outside : whether the input lies outside of the data; a boolean or [Q].
    """

    mean: Array
    band: Any
    relative: Any
    outside: Any

    def __repr__(self) -> str:
        outside, relative = np.atleast_1d(self.outside), np.atleast_1d(self.relative)
        said = f"{np.sum(outside)} of {len(outside)} outside of the data"
        inside = relative[~outside]
        return f"PairsAnswer({said}{f'; 90 % band of {inside[0]:.1e}' if len(inside) else ''})"


class PairsOperator(OtherAttributes):
    """An operator from functions to functions, as `learn` returns it for `Pairs`.

        answer = operator(a)      # answer.mean, answer.band, answer.outside

    Attributes
    ----------
    pairs : how many there were.
    left_out : relative L2 errors of pairs that were not used, by method, [H] each.
    method : the one whose mean error on these is the least, which answers.
    """

    def __init__(self, learned: Learned, judged: Judged, pairs: int) -> None:
        self._learned, self._judged, self.pairs = learned, judged, pairs
        self.left_out, self.method = judged.left_out, judged.method

    def __call__(self, a: Any) -> PairsAnswer:
        """Return the outputs of inputs (local).

        Parameters
        ----------
        a : one input in the shape that the pairs have without their first axis, or many, [Q, …].

        Raises
        ------
        InputError
            a has another shape, or is not finite.

        Warns
        -----
        ResultWarning
            An input is outside of the data: in principal components one and a half times as far
            from the nearest one as any of these from the others; or it differs from what they span
            by more than any pair left out, as one in H + 1 does by chance if H are left out.
        """
        learned, inputs, outputs = self._learned, self._learned.inputs, self._learned.outputs
        values = checked_values("operator", "the input", a)
        single = values.shape == inputs.shape
        if not single and (values.shape[1:] != inputs.shape or not len(values)):
            shape = ", ".join(map(str, inputs.shape))
            raise InputError(
                f"operator: expected an input of the shape [{shape}], or many, [Q, {shape}]; got "
                f"{list(values.shape)}."
            )
        scaled = inputs.scaled(values[None] if single else values)
        outside: Any = (learned.regression.distances(scaled) > self._judged.limits).any(axis=1)
        if outside.any():
            said = "the input is" if single else f"{np.sum(outside)} of {len(outside)} inputs are"
            warnings.warn(
                f"operator: {said} outside of the data: no band holds there.",
                ResultWarning,
                stacklevel=2,
            )
        found = learned(scaled, self.method)
        relative = np.where(outside, math.nan, self._judged.radii[self.method])
        band = (relative * outputs.sizes(found))[:, None] * outputs.deviation
        band = band[:, 0] if outputs.shape == outputs.grid else band
        many: list[Any] = [outputs.restored(found), band, relative, outside]
        return PairsAnswer(*(values[0] for values in many) if single else many)

    @by_name
    def save(self, directory: str | Path, *, overwrite: bool = False) -> Path:
        """Write the operator into a folder, on rank 0; other ranks need not call it (local).

        Raises
        ------
        InputError
            The folder holds an operator of pairs, and `overwrite` is False.
        """
        path = checked_path(directory, "PairsOperator.save") / _FILE
        if path.exists() and not overwrite:
            raise InputError(
                f"PairsOperator.save: {path} exists; write overwrite=True to replace it."
            )
        if current_world().communicator.rank > 0:
            return path.parent
        path.parent.mkdir(parents=True, exist_ok=True)
        learned, judged = self._learned, self._judged
        model, branch = learned.model, learned.regression.branch
        sides = {"a": learned.inputs, "u": learned.outputs}
        about = {
            "pairs": self.pairs,
            "sides": {name: (side.shape, side.grid, side.floor) for name, side in sides.items()},
            "choice": branch.choice,
            "radii": judged.radii,
            "model": model and model.get_config(),
        }
        arrays: dict[str, Any] = {
            "about": np.array(json.dumps(about)),
            "left_out": np.stack(list(judged.left_out.values())),
            "limits": judged.limits,
            "coordinates_a": branch.inputs,
            "coordinates_u": branch.outputs,
        }
        components = (learned.regression.inputs, learned.regression.outputs)
        for (name, side), of in zip(sides.items(), components, strict=True):
            arrays |= {f"means_{name}": side.mean, f"deviations_{name}": side.deviation}
            arrays |= {f"centre_{name}": of.mean, f"axes_{name}": of.axes}
        for number, weights in enumerate(model.get_weights() if model else ()):
            arrays[f"weights_{number}"] = weights
        write_whole(path, lambda draft: np.savez(draft, allow_pickle=False, **arrays))
        return path.parent

    @classmethod
    def load(cls, directory: str | Path) -> PairsOperator:
        """Read an operator of pairs (local).

        Raises
        ------
        InputError
            The folder holds none, or another kind of file.
        """
        path = checked_path(directory, "PairsOperator.load") / _FILE
        if not path.exists():
            other = (path.parent / _OTHER).exists()
            more = "; it has one of a problem, which Operator.load reads" if other else ""
            raise InputError(f"PairsOperator.load: there is no {_FILE} in {directory}{more}.")
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
            about = json.loads(str(arrays["about"]))
            return cls._restored(about, arrays)
        except (KeyError, ValueError, OSError, EOFError) as error:
            raise InputError(
                f"PairsOperator.load: {path} is not a file that PairsOperator.save wrote."
            ) from error

    @classmethod
    def _restored(cls, about: dict[str, Any], arrays: dict[str, Any]) -> PairsOperator:
        coordinates = arrays["coordinates_a"], arrays["coordinates_u"]
        with threads(1):  # as when it was fitted, or other digits come
            branch = Branch(*coordinates, tuple(about["choice"]))
        components, sides = [], []
        for name in "au":
            shape, grid, floor = about["sides"][name]
            units = arrays[f"means_{name}"], arrays[f"deviations_{name}"]
            sides.append(Side(tuple(shape), tuple(grid), *units, floor))
            components.append(Components(arrays[f"centre_{name}"], arrays[f"axes_{name}"]))
        model = FNO.from_config(about["model"]) if about["model"] else None
        if model:
            model.set_weights([arrays[f"weights_{k}"] for k in range(len(model.weights))])
        left_out = dict(zip(about["radii"], arrays["left_out"], strict=True))
        regression = Regression(components[0], components[1], branch)
        learned = Learned(sides[0], sides[1], regression, model)
        return cls(learned, Judged(left_out, about["radii"], arrays["limits"]), about["pairs"])

    def __repr__(self) -> str:
        sides = (self._learned.inputs, self._learned.outputs)
        shapes = " -> ".join(str(list(side.shape)) for side in sides)
        many = len(self.left_out[self.method])
        lines = [
            f"PairsOperator of {self.pairs:,} pairs, {shapes}, by {self.method}",
            f"relative errors of {many} pairs left out, in L2 over the grid:",
        ]
        for method, errors in self.left_out.items():
            said = f"mean {np.mean(errors):.1e}, largest {errors.max():.1e}"
            lines.append(f"  {method:<28}{said}")
        radius = f"{self._judged.radii[self.method]:.1e} of the answer's size"
        return "\n".join([*lines, f"  {'90 % band':<28}{radius}, for the whole function in L2"])
