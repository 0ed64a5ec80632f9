"""Arguments by the names that other packages have for them, and what they are called here."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from sciml_par.errors import InputError

_HERE = {
    "batch_size": "minibatches are points=Points(interior=N, batch_size=B)",
    "boundary_points": "use points=Points(interior=N, boundary=B)",
    "num_domain": "use points=N, or points=Points(interior=N)",
    "num_boundary": "use points=Points(interior=N, boundary=B)",
    "num_initial": "use points=Points(interior=N, initial=I)",
    "anchors": "use points=x, an array; or points=Points(N, adapt=RAR(500)), by the residual",
    "train_distribution": "use points=Points(interior=N, method='sobol')",
    "members": "use mode=Ensemble(members=M) for M of the whole job, or members_per_rank=M",
    "epochs": "use steps=, one step being one update of the weights",
    "iterations": "use steps=, one step being one update of the weights",
    "lr": "use optimizer=Adam(learning_rate=1e-3)",
    "learning_rate": "use optimizer=Adam(learning_rate=1e-3)",
    "decay": "use a schedule, as optimizer=Adam(learning_rate=ExponentialDecay(1e-3, …))",
    "model": "use network=",
    "net": "use network=",
    "external_trainable_variables": "give the problem its unknown coefficients, as "
    "Problem(..., unknowns={'D': Unknown(1.0)})",
    "unknowns": "give them to the problem, as Problem(..., unknowns={'D': Unknown(1.0)})",
    "loss": "the loss is the mean square of the problem's residuals",
    "loss_weights": "use weights={'residual': 1.0, 'dirichlet': 100.0}, by the names of the terms",
    "metrics": "result.members have the error against the problem's exact solution",
    "validation_data": "result.members have the error against the problem's exact solution",
    "verbose": "use progress=False for silence, and log_every= for the cadence",
    "display_every": "use log_every=",
    "model_save_path": "use checkpoint=, and result.save(folder) at the end",
    "early_stopping": "use stop=NoProgress(2000) or stop=TargetLoss(1e-6)",
    "dtype": "use precision='float32' or 'float64'",
    "random_seed": "use seed=",
}


def refuse_others(function: Callable[..., Any], others: Mapping[str, Any]) -> None:
    """Refuse arguments that the function does not have (local).

    Raises
    ------
    InputError
        There is one; the message says what it is called here.
    """
    if not others:
        return
    name = next(iter(others))
    names = [
        n for n, p in inspect.signature(function).parameters.items() if p.kind != p.VAR_KEYWORD
    ]
    near = difflib.get_close_matches(name, names, n=1)
    advice = _HERE.get(name) or (f"did you mean {near[0]}=?" if near else "see help(train)")
    raise InputError(f"{function.__name__}: there is no argument {name!r}; {advice}.")
