"""Arguments by the names and places that other packages have for them, refused with those here."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from sciml_par.errors import InputError

_HERE = {
    "E nu mu lmbda youngs_modulus poisson_ratio": "a material is Elastic(young=E, poisson=nu) or "
    "Elastic(lame=lmbda, shear=mu)",
    "activation activations": "use network=functools.partial(MLP, activation='sin') of train",
    "anchors": "fixed points among those that are drawn are anchors= of Points, as "
    "points=Points(N, anchors=x) of train",
    "axis axes dim coordinates wrt": "name the axes behind x, as derivative(u, x, 't'), or over= "
    "of operators that are sums",
    "batch_size batchsize": "minibatches are points=Points(interior=N, batch_size=B) of train",
    "bcs bc ics ic icbcs boundary_conditions initial_conditions constraints": "use "
    "conditions=[Dirichlet(0.0), …] of Problem",
    "boundary_points num_boundary n_boundary": "use points=Points(interior=N, boundary=B) of train",
    "data": "a problem is Problem(domain, residual, conditions=[…])",
    "boundary location on_boundary": "use on='x=lower', a face, or where=, a function of x",
    "coefficients constants parameters params variables": "known numbers belong into the residual; "
    "those that are sought are Problem(..., unknowns={'D': Unknown(1.0)})",
    "decay lr_scheduler scheduler lr_schedule": "use a schedule, as "
    "optimizer=Adam(learning_rate=ExponentialDecay(1e-3, …)) of train",
    "dtype": "use precision='float32' or 'float64' of train",
    "early_stopping patience tol tolerance": "use stop=NoProgress(2000) or "
    "stop=TargetLoss(1e-6) of train",
    "epochs iterations num_epochs n_epochs max_epochs max_iter maxiter max_iterations epoch n_iter "
    "niter nb_epochs num_steps n_steps max_steps adam_steps": "use "
    "steps= of train, one step being one update of the weights",
    "external_trainable_variables unknowns": "give the problem its unknown coefficients, as "
    "Problem(..., unknowns={'D': Unknown(1.0)})",
    "features": "the number is one of RandomFeatures, in windows as "
    "Windows(functools.partial(RandomFeatures, features=100), parts=4)",
    "func": "the function, or the value of a condition, is the first argument",
    "geom geometry geomtime": "the domain is the first argument of Problem, as Interval(0, 1)",
    "i j": "∂u_c/∂x_j is derivative(u, x, j, component=c), and ∂²u_c/∂x_i∂x_j is derivative(u, x, "
    "i, j, component=c)",
    "hidden hidden_dim hidden_layers hidden_size layers layer_sizes neurons num_layers num_neurons "
    "units": "use MLP(inputs, outputs, width=20, depth=3), as network=functools.partial(MLP, "
    "width=20, depth=3) of train",
    "loss loss_fn criterion": "the loss is the mean square of the problem's residuals",
    "loss_weights": "use weights={'residual': 1.0, 'dirichlet': 100.0} of train, by the names of "
    "the terms",
    "lr learning_rate": "use optimizer=Adam(learning_rate=1e-3) of train; methods of second order "
    "find the lengths of their steps",
    "members": "use mode=Ensemble(members=M) of train for M of the whole job, or members_per_rank",
    "metrics validation_data validation_split num_test": "result.members have the error "
    "against the problem's exact solution",
    "model net nn": "use network= of train",
    "model_save_path save_path folder output log_dir checkpoint_path": "use checkpoint= of train, "
    "and result.save(folder) at the end",
    "num_domain num_points n_points num_interior n_interior": "use points=N of train, or "
    "points=Points(interior=N)",
    "num_initial n_initial": "use points=Points(interior=N, initial=I) of train",
    "sigma std stddev sd error errors yerr uncertainty": "the standard deviation of measured "
    "values is noise= of Observations",
    "order": "a derivative of second order names two axes, as derivative(u, x, 0, 0)",
    "operator": "for derivatives take u = problem.field(result.networks[0]), to which operators "
    "such as laplacian(u, x) apply",
    "pde equation equations": "the equation is the second argument of Problem, (u, x) -> [n, k]",
    "resample resample_period": "use points=Points(N, method='sobol', resample_every=100) of train",
    "random_seed": "use seed= of train",
    "solution exact_solution": "use exact= of Problem",
    "train_distribution": "use points=Points(interior=N, method='sobol') of train",
    "weight_decay": "use optimizer=AdamW(weight_decay=1e-4) of train",
    "xmin xmax l r": "the corners come first, as Interval(0, 1) or Box([0, 0], [1, 1])",
    "verbose": "use progress=False of train for silence, and log_every= for the cadence",
    "display_every": "use log_every= of train",
}
_ATTRIBUTES = {
    "compile": "give the optimizer and the weights to train(problem, optimizer=Adam(1e-3), "
    "weights={…})",
    "fit train": "use train(problem, steps=…), which returns the result",
    "solve": "use solve(problem), a function of sciml_par",
    "predict": "what predicts is train(problem).predict(x), or operator(…) and its answer",
    "losses loss_history losshistory": "result.history[0] has the losses of the first member",
    "model network net": "use result.networks[0]",
    "field derivative gradient": _HERE["operator"],
    "summary": "use result.print()",
    "numpy values u y pred prediction": "the values are result.predict(x).mean, an array [n, m]",
    "std stddev": "the spread of members is result.predict(x).deviation",
    "saveplot save_weights": "use result.save(folder), which writes numbers, weights and figures",
    "load_weights restore": "use Result.load(folder), or resume=True of train",
}
_CLASSES = {
    "Rectangle Hypercube Cuboid Square Cube Cartesian": "a box is Box([0, 0], [1, 1])",
    "Disk Disc Circle Sphere Hypersphere": "a disc or a ball is Ball([0, 0], 1)",
    "Triangle": "a triangle is Polygon([[0, 0], [1, 0], [0, 1]])",
    "TimeDomain GeometryXTime TimeInterval": "space and time are Interval(0, 1) * Time(0, 1)",
    "CSGUnion CSGDifference CSGIntersection": "domains are combined by |, - and &",
    "DirichletBC FixedValue": "use Dirichlet(0.0, on='left')",
    "NeumannBC FixedFlux": "use Neumann(0.0, on='left')",
    "RobinBC": "use Robin(alpha, beta, value, on='left'), alpha u + beta n·∇u = value",
    "Convection ConvectionBC": "−k n·∇T = h (T − T₀) is Robin(h, k, h * T0, on='left')",
    "PeriodicBC": "use Periodic('x')",
    "OperatorBC": "use Condition(lambda u, x: …, on='left')",
    "PointSetBC PointSetOperatorBC": "use Observations(x, u)",
    "IC InitialCondition": "use Initial(lambda x: …)",
    "PDE TimePDE IDE Equation": "use Problem(domain, lambda u, x: …, conditions=[…])",
    "FNN PFNN DNN FCN FeedForward FullyConnected": "use MLP(inputs, outputs, width=20, depth=3) of "
    "sciml_par.networks",
    "Model Trainer PINN Solver": "use train(problem, …) or solve(problem) of sciml_par",
    "EarlyStopping": "use stop=NoProgress(2000) of train",
    "ModelCheckpoint": "use checkpoint=Checkpoint(folder, every=1000) of train",
    "Variable": "an unknown number is Unknown(1.0), in Problem(…, unknowns={'D': Unknown(1.0)})",
    "grad Gradient": "use derivative(u, x, 'x') of sciml_par.problems",
}
_CHOSEN_BY_SOLVE = ("network", "points", "optimizer", "steps", "weights", "phases", "stop")
_SOLVE = "{} chooses network, points, optimizer and steps; train(problem, …) takes them"
_SIZES = "; the sizes of layers are MLP(inputs, outputs, width=20, depth=3)"


def _by_word(table: dict[str, str]) -> dict[str, str]:
    return {name: advice for names, advice in table.items() for name in names.split()}


_ADVICE, _OF_ATTRIBUTES = _by_word(_HERE), _by_word(_ATTRIBUTES)
_OF_CLASSES = _by_word(_CLASSES)

_P = ParamSpec("_P")
_R = TypeVar("_R")


def names_of(package: str, attribute: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, which refuses the names that other packages have."""

    def named(name: str) -> Any:
        try:
            return attribute(name)
        except AttributeError:
            if name not in _OF_CLASSES:
                raise
        raise AttributeError(f"{package} has no {name!r}; {_OF_CLASSES[name]}.")

    return named


class OtherAttributes:
    """A class that knows the methods of other packages, and names those here."""

    if not TYPE_CHECKING:  # else every attribute would be one of its own

        def __getattr__(self, name: str) -> Any:
            """Raise the error of a missing attribute, with the name here if that is known."""
            if name not in _OF_ATTRIBUTES:
                return object.__getattribute__(self, name)  # raises again, if a property did
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}; {_OF_ATTRIBUTES[name]}.",
                name=name,
                obj=self,
            )


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
        sizes = "inputs" in signature.parameters and any(isinstance(a, list) for a in args)
        raise InputError(f"{what}: {fault}; {called}{_SIZES if sizes else ''}.")
    near = difflib.get_close_matches(other, list(signature.parameters), n=1)
    advice = _ADVICE.get(other) or (f"did you mean {near[0]}=?" if near else called)
    if what in ("solve", "learn") and (other in _ADVICE or other in _CHOSEN_BY_SOLVE):
        advice = _SOLVE.format(what)
    raise InputError(f"{what}: there is no argument {other!r}; {advice}.")
