"""Members of several results as those of one, and a result in a few lines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from made_by_hand import (
    ended,
    ensemble,
    make_member,
    of_this_process,
    one_model,
    tiny,
    trained,
    wave,
)

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.evaluation import Prediction
from sciml_par.problems import Box
from sciml_par.results import PredictionElsewhere, Result

X = np.linspace(-1, 1, 20)[:, None]


def test_members_are_numbered_anew() -> None:
    first = of_this_process(trained(0, stacked_with=(0, 1)), trained(1, stacked_with=(0, 1)))
    wide = of_this_process(trained(0, width=6, stacked_with=(0,)))
    merged = Result.merge([first, wide, first])
    assert [member.number for member in merged.members] == [0, 1, 2, 3, 4]
    assert [m.stacked_with for m in merged.members] == [(0, 1), (0, 1), (2,), (3, 4), (3, 4)]
    assert merged.mode == "ensemble" and merged.communicator is None
    assert merged.arguments == {"merged": [{}, {}, {}]}
    found = merged.predict(X).members
    np.testing.assert_allclose(found[1], tiny(1)(X), atol=1e-6)
    np.testing.assert_allclose(found[2], tiny(0, width=6)(X), atol=1e-6)
    np.testing.assert_array_equal(found[3:], found[:2])


@pytest.mark.ranks(most=2, reason="two ranks show what more would")
def test_what_is_merged_is_saved_loaded_and_drawn_as_one(tmp_path: Path) -> None:
    shared = Path(sp.current_world().communicator.broadcast_object(str(tmp_path)))
    merged = Result.merge([ensemble(), one_model(2)])
    folder = merged.save(shared / "merged")
    assert (folder / "prediction.png").exists()
    summary = json.loads((folder / "results.json").read_text())
    assert [member["member"] for member in summary["members"]] == [0, 1, 2, 3, 4]
    assert len(Result.load(folder).members) == 5
    again = Result.merge([Result.load(folder), merged])
    assert again.communicator is merged.communicator and len(again.members) == 10
    sp.barrier()


def test_results_that_do_not_fit_are_refused_on_all_ranks() -> None:
    other = wave(0, Box([-1.0], [1.0]), points=12)
    x = Box([-1.0], [1.0]).grid(11)
    two = Prediction("prediction", x, np.zeros((11, 2)))
    for prediction, match in (
        (other, r"result 1 was evaluated on other points than result 0 \(\[12, 1\], \[11, 1\]\)"),
        (two, "result 0 has 1, result 1 has 2"),
    ):
        here = PredictionElsewhere(True, 0.0) if sp.rank() > 0 else prediction
        with pytest.raises(InputError, match=match):
            Result.merge([ensemble(), ensemble(make_member(0, prediction=here))])
    for given in ([], ["a"], [ensemble(), None]):
        with pytest.raises(InputError, match="expected a list of results"):
            Result.merge(given)  # type: ignore[arg-type]


def test_a_result_in_a_few_lines() -> None:
    members = [ended(n) if n % 9 == 4 else make_member(n, rank=n // 8) for n in range(64)]
    lines = repr(ensemble(*members)).splitlines()
    assert len(lines) <= 10 and max(map(len, lines)) <= 100
    assert lines[0] == "Result of mode 'ensemble': 64 members, trained by 8 ranks"
    text = "\n".join(lines)
    for said in ("57 all steps, 7 not finite", "7 to 25", "3.91e-03 to 4.00e-01", "1.48e-02"):
        assert said in text
    one = repr(one_model(3, kept="last"))
    assert one.startswith("Result of mode 'data': one model, trained by 3 ranks")
    assert "2.50e-01 (last weights)" in one


def test_the_history_of_each_member() -> None:
    for history, member in zip(ensemble().history, ensemble().members, strict=True):
        assert history.member == member.number
        np.testing.assert_array_equal(history.steps, [0, 10, 20, 25])
        np.testing.assert_allclose(sum(history.terms.values()), history.losses)
