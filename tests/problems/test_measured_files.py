"""Observations from the columns of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import tensorflow as tf
import xarray

from sciml_par.errors import InputError
from sciml_par.problems import Observations

pytestmark = pytest.mark.ranks(most=1, reason="local")
TABLE = {"x": [0.1, 0.2, 0.3], "hours": [1.0, 2.0, 3.0], "T": [4.0, 5.0, 6.0], "s": [0.1] * 3}


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt", ".nc"])
def test_columns_become_observations(tmp_path: Path, ending: str) -> None:
    path, table = tmp_path / f"probe{ending}", pandas.DataFrame(TABLE)
    if ending == ".nc":
        xarray.Dataset.from_dataframe(table).to_netcdf(path)
    else:
        separator = {".csv": ",", ".tsv": "\t", ".txt": " "}[ending]
        table.to_csv(path, sep=separator, index=False)
    found = Observations.from_file(
        path, x=["x", "hours"], u="T", noise="s", units={"hours": 3600.0}, component="T"
    )
    np.testing.assert_allclose(found.x, [[0.1, 3600], [0.2, 7200], [0.3, 10800]])
    assert found.u.tolist() == [[4.0], [5.0], [6.0]]
    assert np.allclose(found.noise, 0.1)


def test_columns_may_be_observed_quantities(tmp_path: Path) -> None:
    path = tmp_path / "flux.csv"
    path.write_text("t,q\n0,1\n1,2\n")
    found = Observations.from_file(path, x="t", u="q", operator=lambda u, x: 3 * u(x))
    values = found.quantities(lambda x: x, tf.constant([[1.0], [2.0]]))
    assert values.numpy().tolist() == [[3.0], [6.0]]


def test_missing_values_are_named_or_dropped(tmp_path: Path) -> None:
    path = tmp_path / "gaps.csv"
    path.write_text("t,u\n0,1\n1,\n2,3\n,4\n")
    with pytest.raises(
        InputError, match=r"gaps.csv, in row 2, 4 \(the first of them in the col.*'u'"
    ):
        Observations.from_file(path, x="t", u="u")
    found = Observations.from_file(path, x="t", u="u", noise=0.1, missing="drop")
    assert found.x.tolist() == [[0.0], [2.0]] and found.u.tolist() == [[1.0], [3.0]]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"x": "z"}, "no column 'z'; it has 'x', 'hours'"),
        ({"x": 3}, "names of columns"),
        ({"units": {"x": "cm"}}, "factors by which columns are multiplied.*'cm'"),
        ({"units": {"y": 2.0}}, "which is not read"),
        ({"u": "label"}, "the value 'b' in row 2"),
        ({"missing": "skip"}, "'error' or 'drop'"),
        ({"path": "none.csv"}, "cannot read none.csv"),
        ({"path": "table.xlsx"}, "ending .csv"),
    ],
)
def test_bad_input(tmp_path: Path, given: dict[str, Any], text: str) -> None:
    path = tmp_path / "probe.csv"
    pandas.DataFrame({**TABLE, "label": ["1", "b", "c"]}).to_csv(path, index=False)
    arguments = {"path": path, "x": "x", "u": "T", **given}
    with pytest.raises(InputError, match=text):
        Observations.from_file(arguments.pop("path"), **arguments)
