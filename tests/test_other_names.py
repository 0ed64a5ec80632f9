"""Arguments by the names and places of other packages."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sciml_par as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP, ModifiedMLP, RandomFeatures, Windows
from sciml_par.problems import (
    Dirichlet,
    Elastic,
    GriddedFunction,
    Initial,
    Interval,
    Neumann,
    Observations,
    Periodic,
    Polygon,
    Problem,
    Residual,
    Robin,
    Traction,
    Unknown,
    derivative,
    hessian,
    jacobian,
    laplacian,
    poisson,
)
from sciml_par.training import (
    LBFGS,
    RAR,
    Adam,
    Checkpoint,
    Ensemble,
    ExponentialDecay,
    LevenbergMarquardt,
    NoProgress,
    Points,
)
from sciml_par.training.optimizers.phases import as_optimizer

UNIT = Interval(0, 1)
X = np.zeros((3, 1), "float32")
LAYERS = r"use MLP\(inputs, outputs, width=20, depth=3\)"
STEPS = "use steps= of train"


def problem(**others: Any) -> Problem:
    return Problem(UNIT, laplacian, **others)


def train(**others: Any) -> Any:
    return sp.train(poisson(), **others)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: train(lr=1e-3), r"train: .* 'lr'; use optimizer=Adam\(learning_rate=1e-3\)"),
        (lambda: train(epochs=9), f"train: there is no argument 'epochs'; {STEPS}"),
        (lambda: train(iterations=9), STEPS),
        (lambda: train(num_domain=9), "use points=N of train"),
        (lambda: train(num_boundary=9), r"points=Points\(interior=N, boundary=B\)"),
        (lambda: train(num_points=9), "use points=N of train"),
        (lambda: train(loss_weights=[1, 9]), "use weights="),
        (lambda: train(batch_size=9), r"points=Points\(interior=N, batch_size=B\)"),
        (lambda: train(layers=[1, 9, 1]), LAYERS),
        (lambda: train(activation="sin"), r"functools.partial\(MLP, activation='sin'\)"),
        (lambda: train(precison="float64"), "did you mean precision="),
        (lambda: train(bcs=[]), r"use conditions=\[Dirichlet"),
        (
            lambda: sp.train(poisson(), MLP),
            r"train: too many positional .* train\(problem, \*, net",
        ),
        (lambda: problem(bcs=[]), r"Problem: .* 'bcs'; use conditions=\[Dirichlet"),
        (lambda: problem(solution=abs), "use exact= of Problem"),
        (lambda: Problem(geom=UNIT, pde=laplacian), "domain is the first argument of Problem"),
        (lambda: Problem(UNIT, pde=laplacian), "equation is the second argument of Problem"),
        (lambda: Problem(UNIT, laplacian, [Dirichlet()]), r"Problem: too .* conditions=\(\)"),
        (lambda: MLP(1, 1, layers=[9, 9]), f"MLP: there is no argument 'layers'; {LAYERS}"),
        (lambda: MLP(1, 1, units=9), LAYERS),
        (lambda: MLP(1, 1, hidden=[9]), LAYERS),
        (lambda: ModifiedMLP(1, 1, neurons=9), f"ModifiedMLP: .*{LAYERS}"),
        (lambda: MLP(layer_sizes=[1, 9, 1]), LAYERS),
        (lambda: MLP([2, 20, 20, 1]), r"MLP: .* 'outputs'; it is called as MLP\(inputs, outputs, "),
        (lambda: MLP([2, 20, 20, 1], 1), "sizes of layers are MLP"),
        (lambda: MLP([2, 20, 20, 1], "tanh"), "sizes of layers are MLP"),
        (lambda: Adam(lr=1e-3), r"Adam: .* 'lr'; use optimizer=Adam\(learning_rate=1e-3\)"),
        (lambda: Adam("1e-3"), "expected learning_rate to be a number"),
        (lambda: Adam(1e-3, epochs=9), STEPS),
        (lambda: Adam(1e-3, 0.9), r"Adam: too many positional .* Adam\(learning_rate=0.001, \*, "),
        (lambda: LBFGS(max_iter=9), f"LBFGS: .*{STEPS}"),
        (lambda: LevenbergMarquardt(lr=9), "no argument 'lr'"),
        (lambda: ExponentialDecay(1e-3, decay_step=9, decay_rate=0.9), "did you mean decay_steps="),
        (lambda: Points(num_domain=9), r"Points: .* points=Points\(interior=N\)"),
        (lambda: Points(9, num_boundary=9), r"Points\(interior=N, boundary=B\)"),
        (lambda: RAR(500, ad=3), "RAR: .* did you mean add="),
        (lambda: Ensemble(n_members=9), "Ensemble: .* did you mean members="),
        (lambda: Ensemble(9), "Ensemble: too many positional"),
        (lambda: Checkpoint("x", evry=9), "Checkpoint: .* did you mean every="),
        (lambda: NoProgress(patience=9), "NoProgress: "),
        (lambda: Dirichlet(0.0, loss_weights=9), "Dirichlet: .* 'loss_weights'; use weights="),
        (lambda: Dirichlet(0.0, "left"), r"Dirichlet: too many .* Dirichlet\(value=0.0, \*, comp"),
        (lambda: Neumann(0.0, wieght=9), "Neumann: .* did you mean weight="),
        (lambda: Robin(value=9), r"Robin: missing .* Robin\(alpha, beta, value=0.0, "),
        (lambda: Initial(0.0, num_points=9), "Initial: .* 'num_points'"),
        (lambda: Periodic("x", n=3), r"Periodic: .* it is called as Periodic\("),
        (lambda: Observations([[0.5]], values=[1.0]), "Observations: "),
        (lambda: Residual(laplacian, wieght=3), "Residual: .* did you mean weight="),
        (lambda: Unknown(1.0, low=0), "Unknown: .* did you mean lower="),
        (
            lambda: train(network=[1, 20, 1]),
            r"got list; the sizes .*partial\(MLP, width=20, depth=3",
        ),
        (lambda: train(max_steps=9), STEPS),
        (lambda: train(anchors=[[0.5]]), r"points=Points\(N, anchors=x\)"),
        (lambda: train(weight_decay=1e-4), r"use optimizer=AdamW\(weight_decay=1e-4\)"),
        (lambda: train(folder="x"), r"result.save\(folder\)"),
        (lambda: problem(params={}), r"Problem\(..., unknowns="),
        (lambda: sp.solve(poisson(), epochs=9), r"solve chooses .* train\(problem, …\) takes them"),
        (lambda: sp.solve(poisson(), optimizer=Adam()), "solve chooses network, points, optimizer"),
        (lambda: sp.solve(poisson(), tolerence=9), "did you mean tolerance="),
        (lambda: LevenbergMarquardt(learning_rate=9), "second order find the lengths of their"),
        (lambda: jacobian(abs, X, i=0, j=1), r"jacobian: .*derivative\(u, x, j, component=c\)"),
        (lambda: hessian(abs, X, i=0, j=1), r"hessian: .*derivative\(u, x, i, j, component=c\)"),
        (lambda: derivative(abs, X, 0, order=2), r"names two axes, as derivative\(u, x, 0, 0\)"),
        (lambda: laplacian(abs, X, "x"), r"laplacian: too many .* laplacian\(u, x, \*, over=None"),
        (lambda: jacobian(X, abs), r"a residual is def f\(u, x\), with the field first"),
        (lambda: train(points=1), r"points=\[\[0.5\]\]\), must be an integer of at least 2, got 1"),
        (lambda: Windows(RandomFeatures, features=9), r"Windows: .*partial\(RandomFeatures, feat"),
        (lambda: GriddedFunction([0, 1], [0, 1], [0, 1]), r"GriddedFunction\(axes, values, \*, d"),
        (lambda: Polygon("a.msh"), r"read by Polygon.from_file\('a.msh'\)"),
        (lambda: Traction(Elastic(young=1, poisson=0), 2.0), r"lambda x, normals: -2 \* normals"),
        (lambda: Interval(left=0, right=1), r"Interval: .* called as Interval\(lower, upper"),
    ],
)
def test_a_sentence_with_the_name_here(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        call()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("compile", r"give the optimizer and the weights to train\(problem, optimizer=Adam"),
        ("fit", r"Problem has no attribute 'fit'; use train\(problem, steps=…\)"),
        ("solve", r"use solve\(problem\)"),
        ("predict", r"train\(problem\).predict\(x\)"),
    ],
)
def test_methods_of_problems(name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=says):
        getattr(problem(), name)
    assert not hasattr(problem(), "epochs")


def test_a_residual_in_the_order_of_deepxde() -> None:
    with pytest.raises(InputError, match=r"a residual is def f\(u, x\), with the field first"):
        sp.train(Problem(UNIT, lambda x, u: laplacian(u, x)), progress=False)


def test_methods_of_results() -> None:
    result = train(steps=1, points=9, progress=False)
    with pytest.raises(InputError, match=r"Result.predict: .* u = problem.field\(result.networks"):
        result.predict([[0.5]], operator=laplacian)
    with pytest.raises(InputError, match="Result.save: .* did you mean overwrite="):
        result.save("x", overwite=True)
    with pytest.raises(InputError, match="Result.load: "):
        sp.training.Result.load("x", mesh=1)
    with pytest.raises(AttributeError, match=r"Result has no attribute 'model'; use result.netw"):
        _ = result.model
    with pytest.raises(AttributeError, match=r"Result has no attribute 'losses'; result.history"):
        _ = result.losses
    assert result.loss == result.members[0].kept_loss and result.relative_l2_error > 0
    if sp.rank() == 0:
        assert result.plot(title="u").axes[0].get_xlabel() == "$x$"
    assert result.predict(0.5).mean.shape == (1, 1)
    u = problem().field(result.networks[0])  # as the sentence says
    assert derivative(u, np.array([[0.5]], "float32"), 0).shape == (1, 1)


@pytest.mark.parametrize(
    ("package", "name", "says"),
    [
        ("problems", "Rectangle", r"has no 'Rectangle'; a box is Box\(\[0, 0\], \[1, 1\]\)"),
        ("problems", "DirichletBC", r"use Dirichlet\(0.0, on='left'\)"),
        ("problems", "Convection", r"is Robin\(h, k, h \* T0, on='left'\)"),
        ("networks", "FNN", r"use MLP\(inputs, outputs, width=20, depth=3\)"),
        ("training", "EarlyStopping", r"use stop=NoProgress\(2000\)"),
    ],
)
def test_classes_of_other_packages(package: str, name: str, says: str) -> None:
    for module in (sp, getattr(sp, package)):
        with pytest.raises(ImportError, match=says):
            exec(f"from {module.__name__} import {name}")
        with pytest.raises(AttributeError, match=says):
            getattr(module, name)
        assert not hasattr(module, name) and not hasattr(module, "Nonsense")


def test_optimizers_go_by_their_names() -> None:
    for name, kind in (("adam", Adam), ("L-BFGS", LBFGS), ("lm", LevenbergMarquardt)):
        assert type(as_optimizer(name)) is kind
    with pytest.raises(InputError, match="or one of 'auto', 'adam', .* got 'adm'"):
        train(optimizer="adm", steps=1)


def test_warnings_point_to_the_line_of_the_user() -> None:
    far = Problem(Interval(1e4, 1e4 + 1), laplacian, conditions=[Dirichlet(0.0)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = sp.train(far, steps=1, points=40, progress=False)
        result.predict([[1e4], [1e4 + 1e-5]])
    assert sp.rank() > 0 or {warning.filename for warning in caught} == {__file__}


def test_copies_need_no_arguments() -> None:
    for each in (Adam(1e-2), Points(9), UNIT, Dirichlet(0.0), Unknown(1.0), Ensemble(members=2)):
        assert repr(copy.copy(each)) == repr(copy.deepcopy(each)) == repr(each)
        assert repr(pickle.loads(pickle.dumps(each))) == repr(each)
