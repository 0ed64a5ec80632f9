"""Arguments by the names and places that other packages have for them, refused with those here."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Self, TypeVar

from sciml_par.errors import InputError

_HERE = {
    "activation activations": "use network=functools.partial(MLP, activation='sin') of train",
    "anchors": "use points=x of train, an array; or points=Points(N, adapt=RAR(500))",
    "batch_size batchsize": "minibatches are points=Points(interior=N, batch_size=B) of train",
    "bcs bc ics ic icbcs boundary_conditions constraints": "use conditions=[Dirichlet(0.0), …] of "
    "Problem",
    "boundary_points num_boundary n_boundary": "use points=Points(interior=N, boundary=B) of train",
    "data": "a problem is Problem(domain, residual, conditions=[…])",
    "decay": "use a schedule, as optimizer=Adam(learning_rate=ExponentialDecay(1e-3, …)) of train",
    "dtype": "use precision='float32' or 'float64' of train",
    "early_stopping patience": "use stop=NoProgress(2000) or stop=TargetLoss(1e-6) of train",
    "epochs iterations num_epochs n_epochs max_epochs max_iter maxiter max_iterations": "use "
    "steps= of train, one step being one update of the weights",
    "external_trainable_variables unknowns": "give the problem its unknown coefficients, as "
    "Problem(..., unknowns={'D': Unknown(1.0)})",
    "geom geometry geomtime": "the domain is the first argument of Problem, as Interval(0, 1)",
    "hidden hidden_dim hidden_layers hidden_size layers layer_sizes neurons num_layers num_neurons "
    "units": "use MLP(inputs, outputs, width=20, depth=3), as network=functools.partial(MLP, "
    "width=20, depth=3) of train",
    "loss": "the loss is the mean square of the problem's residuals",
    "loss_weights": "use weights={'residual': 1.0, 'dirichlet': 100.0} of train, by the names of "
    "the terms",
    "lr learning_rate": "use optimizer=Adam(learning_rate=1e-3) of train",
    "members": "use mode=Ensemble(members=M) of train for M of the whole job, or members_per_rank",
    "metrics validation_data": "result.members have the error against the problem's exact solution",
    "model net": "use network= of train",
    "model_save_path": "use checkpoint= of train, and result.save(folder) at the end",
    "num_domain num_points n_points num_interior n_interior": "use points=N of train, or "
    "points=Points(interior=N)",
    "num_initial n_initial": "use points=Points(interior=N, initial=I) of train",
    "sigma std stddev sd error errors yerr uncertainty": "the standard deviation of measured "
    "values is noise= of Observations",
    "operator": "for derivatives take u = problem.field(result.networks[0]), to which operators "
    "such as laplacian(u, x) apply",
    "pde equation equations": "the equation is the second argument of Problem, (u, x) -> [n, k]",
    "random_seed": "use seed= of train",
    "solution exact_solution": "use exact= of Problem",
    "train_distribution": "use points=Points(interior=N, method='sobol') of train",
    "verbose": "use progress=False of train for silence, and log_every= for the cadence",
    "display_every": "use log_every= of train",
}
_ADVICE = {name: advice for names, advice in _HERE.items() for name in names.split()}

_P = ParamSpec("_P")
_R = TypeVar("_R")


class ByName:
    """A class whose constructor refuses arguments of other packages with the names here."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Check the arguments; copies are made without any."""
        if args or kwargs:
            _check(cls.__name__, _signature(cls.__init__), args, kwargs)
        return super().__new__(cls)


# Else `help` would show (*args, **kwargs) for classes without a constructor.
ByName.__new__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [inspect.Parameter("cls", inspect.Parameter.POSITIONAL_ONLY)]
)


def by_name(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return the function, or the constructor, made to refuse other arguments in this way."""
    method = next(iter(inspect.signature(function).parameters)) == "self"

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        signature = _signature(function) if method else inspect.signature(function)
        made = function.__name__ == "__init__"
        name = type(args[0]).__name__ if made else function.__qualname__
        _check(name, signature, args[1:] if method else args, kwargs)
        return function(*args, **kwargs)

    return checked


@functools.lru_cache(maxsize=256)
def _signature(method: Any) -> inspect.Signature:
    """Return the signature without self."""
    whole = inspect.signature(method)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


def _check(what: str, signature: inspect.Signature, args: Any, kwargs: Any) -> None:
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        fault = str(error)
    else:
        return
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    called = f"it is called as {what}{inspect.Signature(bare)}"
    other = next((name for name in kwargs if name not in signature.parameters), None)
    if other is None:
        raise InputError(f"{what}: {fault}; {called}.")
    near = difflib.get_close_matches(other, list(signature.parameters), n=1)
    advice = _ADVICE.get(other) or (f"did you mean {near[0]}=?" if near else called)
    raise InputError(f"{what}: there is no argument {other!r}; {advice}.")
