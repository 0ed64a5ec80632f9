"""Unknown functions read from the files of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.problems.unknowns.placed_function import Input, PlacedFunction
from sciml_par.problems.unknowns.unknown_functions import UnknownFunction
from sciml_par.results.member import Weights
from sciml_par.results.member_function import MemberFunction

Arrays = Mapping[str, npt.NDArray[Any]]


def load_functions(
    summary: dict[str, Any], arrays: Arrays
) -> dict[int, tuple[MemberFunction, ...]]:
    """The unknown functions of each member, by its number."""
    return {
        entry["member"]: tuple(
            _function(each, entry["member"], arrays) for each in entry.get("unknown_functions", [])
        )
        for entry in summary["members"]
    }


def _function(entry: dict[str, Any], number: int, arrays: Arrays) -> MemberFunction:
    name, inputs = entry["name"], tuple(Input(**each) for each in entry["inputs"])
    lower, upper = (np.array(corner, np.float64) for corner in entry["box"])
    of = tuple(each.name for each in inputs)
    given = {key: entry[key] for key in ("lower", "upper", "scale")}
    function = UnknownFunction(entry["start"], of=of, **given)

    def array(what: str) -> npt.NDArray[Any]:
        return arrays[f"{what}_{number}_{name}"]

    true = array("true")
    prediction = Prediction(
        "prediction",
        array("x"),
        array("k"),
        None if np.isnan(true).all() else true,
        inside=array("inside"),
        coordinates=of,
        fields=(name,),
    )
    return MemberFunction(
        placed=PlacedFunction(name, function, inputs, lower, upper, tuple(entry["coordinates"])),
        scaled=entry["scaled"],
        architecture=entry["architecture"],
        prediction=prediction,
        weights=Weights(array("best"), array("last")),
    )
