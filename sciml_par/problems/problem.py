"""A problem: a domain, equations in it, conditions on its boundary."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_weight
from sciml_par._other_names import ByName, OtherAttributes
from sciml_par._tape import Function
from sciml_par.errors import InputError
from sciml_par.problems._arguments import (
    Equation,
    as_conditions,
    as_residuals,
    check_kinds,
    checked_network_outputs,
    checked_outputs,
    checked_ranges,
    checked_term_weights,
    checked_unknowns,
    checked_where,
    unique,
)
from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.checks.functions import holds_at, values_at
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.conditions.in_time import Before
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.fields.field import Field, JetFunction
from sciml_par.problems.fields.transformed import (
    Ansatz,
    AnsatzFunction,
    Corners,
    Ranges,
    Scaling,
    corners_of,
    is_unusual,
)
from sciml_par.problems.problem_check import check_problem
from sciml_par.problems.terms.residual import Residual
from sciml_par.problems.terms.term import Arrays, Sums, Term, as_field
from sciml_par.problems.unknowns.placed_function import PlacedFunction, place
from sciml_par.problems.unknowns.prior_conditions import PriorCondition, prior_conditions
from sciml_par.problems.unknowns.unknown_arguments import (
    check_all_named,
    refuse_in_ansatz,
    residual_of,
    with_part,
)
from sciml_par.problems.unknowns.unknown_functions import UnknownFunction
from sciml_par.problems.unknowns.unknowns import Unknown

Exact = Callable[[FloatArray], npt.ArrayLike]


class Problem(OtherAttributes, ByName):
    """A problem to solve, independent of networks, ranks and optimizers; immutable.

    The loss is L = Σ_t w_t · (1/N_t) Σ_{i=1..N_t} |r_t(x_i)|² over the terms t: the equations in
    the interior first, then the conditions, then the priors of unknowns. |·|² is summed over the
    components of r_t.

    Parameters
    ----------
    domain : Domain
        Such as `Interval`, `Box`, `Ball` or `Polygon`, and combinations of them.
    residual : callable, Residual, or a sequence of these
        (u, x: [n, d]) -> r: [n, k], left side minus right side. A plain function has the weight 1.
        None or an empty sequence for a fit of data, with conditions alone.
    conditions : sequence of Condition
        `Dirichlet`, `Neumann`, `Robin`, `Traction`, `Initial`, `Periodic`, `Interface`,
        `Observations`, `IntegralCondition`, `Condition` and derived classes. Conditions without a
        weight get the weight 1, unless `with_condition_weight` or the optimizer sets another one.
    exact : callable, optional
        The exact solution, x: [n, d] -> [n, m], in NumPy or TensorFlow; [n] is taken as [n, 1]
        if m = 1.
    outputs : int, str or sequence of str
        Number m of components of the field, or their names, for figures and tables, such as
        ("u", "v", "p"). The default names are u, or u1 to um.
    ansatz : callable, optional
        (N, x: [n, d]) -> u: [n, m] in TensorFlow operations, point by point: the field u as a
        function of the network N, such as ``lambda N, x: x * (1 - x) * N(x)``, which is zero at
        both ends. Residuals, conditions and predictions use u. See `field`.
    network_outputs : int, optional
        Number of components of N, if an ansatz computes m components from a different number,
        such as two velocities from one stream function.
    input_scaling : bool, optional
        Whether the inputs of the network are scaled from the box of the domain to [−1, 1]^d.
        Residuals, the ansatz and derivatives still use x. By default inputs are scaled if a
        coordinate exceeds ±10 or a side is shorter than 0.1, and the network is one of
        `sciml_par.networks` whose embedding has no periods in units of x; see `for_network`.
    output_ranges : dict of str to (low, high), optional
        Ranges of values of components by their names, in the units of u, which the network gives
        as −1 to 1; other components are the network's outputs themselves, and all are if False.
        By default `train` chooses ranges where the values of conditions, or the sources of linear
        equations, show that u has another size than 1; see `with_output_ranges`.
    where : dict of str to callable, optional
        Where components mean something, x: [n, d] -> booleans [n] by their names, as on one side of
        an `Interface` each. Elsewhere they are any smooth extension: neither the error nor whether
        the solution is determined is judged there. See `means`.
    unknowns : dict of str to Unknown, UnknownFunction or float
        Numbers and functions to find together with the solution. A residual, a condition or the
        function of a condition gets those that it names as arguments, by keyword, as in
        ``def residual(u, x, *, D)``; with ``**unknowns`` it gets all.
    name : str

    Raises
    ------
    InputError
        An argument has the wrong kind, or the exact solution the wrong shape. A component has the
        name of a coordinate. No residual or condition takes an unknown, or a residual takes an
        argument that is not an unknown.

    Examples
    --------
    u″ = 2 on (0, 1) with u(0) = u(1) = 0:

    >>> from sciml_par.problems import Dirichlet, Interval, Problem, laplacian
    >>> problem = Problem(
    ...     Interval(0, 1),
    ...     lambda u, x: laplacian(u, x) - 2,
    ...     conditions=[Dirichlet(0.0)],
    ...     exact=lambda x: x * (x - 1),
    ...     name="parabola",
    ... )
    >>> [(term.name, term.weight) for term in problem.terms]
    [('residual', 1.0), ('dirichlet', 1.0)]
    """

    def __init__(
        self,
        domain: Domain,
        residual: Equation | Sequence[Equation] | None,
        *,
        conditions: Sequence[Condition] = (),
        exact: Exact | None = None,
        outputs: int | str | Sequence[str] = 1,
        ansatz: AnsatzFunction | None = None,
        network_outputs: int | None = None,
        input_scaling: bool | None = None,
        output_ranges: Mapping[str, tuple[float, float]] | bool | None = None,
        where: Mapping[str, Callable[[Any], Any]] | None = None,
        unknowns: Mapping[str, Unknown | UnknownFunction | float] | None = None,
        name: str = "",
    ) -> None:
        check_kinds(domain, exact, ansatz, input_scaling)
        self._domain, self._name, self._exact = domain, str(name), exact
        self._output_names = checked_outputs(outputs, domain)
        self._where = checked_where(where, self._output_names)
        self._ansatz = None if ansatz is None else Ansatz(ansatz)
        self._network_outputs = checked_network_outputs(
            network_outputs, outputs=self.outputs, ansatz=self._ansatz
        )
        self._input_scaling = input_scaling
        ranges = checked_ranges(output_ranges, self._output_names, ansatz)
        self._open_ranges = output_ranges is None and ansatz is None
        self._scaling = Scaling.of(self._corners if input_scaling else None, ranges)
        self._residuals = as_residuals(residual)
        self._conditions = as_conditions(conditions, domain, self._output_names, unknowns)
        if not self._residuals and not self._conditions:
            raise InputError(
                "Problem: at least one residual or condition is needed; a fit of data is "
                "Problem(domain, [], conditions=[Observations(x, u)])"
            )
        self._condition_weight: float | None = None
        self._unknowns, functions = checked_unknowns(
            {} if unknowns is None else unknowns,
            coordinates=domain.names,
            outputs=self._output_names,
        )
        self._functions = place(functions, domain, self._output_names)
        self._conditions += prior_conditions(self._unknowns, self._functions, domain)
        self._values: dict[str, Any] = {}
        sought = self._starts()
        if ansatz is not None:
            refuse_in_ansatz(ansatz, sought)
        self._term_weights: dict[str, float] = {}
        self._terms = self._make_terms()
        check_all_named([term.function for term in self._terms], sought)
        if exact is not None:
            self._evaluate_exact(domain.sample(5, seed=0))

    @property
    def domain(self) -> Domain:
        """Where the equations hold."""
        return self._domain

    @property
    def residuals(self) -> tuple[Residual, ...]:
        """The equations in the interior."""
        return self._residuals

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions, with names of components and axes resolved; then priors of unknowns."""
        return self._conditions

    @property
    def condition_weight(self) -> float | None:
        """The weight of conditions that have none, or None."""
        return self._condition_weight

    @property
    def term_weights(self) -> dict[str, float]:
        """The weights that `with_term_weights` has set, by the names of terms."""
        return dict(self._term_weights)

    @property
    def outputs(self) -> int:
        """Number m of components of the field."""
        return len(self._output_names)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the components, m of them."""
        return self._output_names

    def means(self, x: FloatArray) -> BoolArray:
        """Return where the components mean something, x: [n, d] -> [n, m]; see `where` (local)."""
        found = np.ones((len(x), self.outputs), np.bool_)
        for j, name in enumerate(self._output_names):
            if name in self._where:
                found[:, j] = holds_at(self._where[name], x, f"Problem: where[{name!r}]")
        return found

    @property
    def network_outputs(self) -> int:
        """Number of components of the network's field."""
        return self._network_outputs

    @property
    def ansatz(self) -> AnsatzFunction | None:
        """The field as made of the network's, as it was given, or None."""
        return None if self._ansatz is None else self._ansatz.function

    @property
    def input_scaling(self) -> bool | None:
        """Whether the network sees x mapped to [−1, 1]^d; None where `for_network` decides."""
        return self._input_scaling

    @property
    def scaled_box(self) -> Corners | None:
        """The corners of the box that the network sees as [−1, 1]^d; None if it sees x itself."""
        return None if self._scaling is None else self._scaling.corners

    @property
    def output_ranges(self) -> Ranges | None:
        """What the network gives as −1 and 1, of each component in its units; None for u = N."""
        return None if self._scaling is None else self._scaling.ranges

    @property
    def has_open_ranges(self) -> bool:
        """Whether `train` may choose the ranges of the components."""
        return self._open_ranges

    @property
    def box_of_inputs(self) -> Corners:
        """The corners of the box of the points as the network sees them, scaled or not."""
        d, box, scaled = self._domain.dimension, self._corners, self.scaled_box
        if scaled is None:
            return box
        if scaled == box:
            return (-1.0,) * d, (1.0,) * d
        low, high = np.array(scaled)
        seen = (2 * np.array(box) - (low + high)) / (high - low)
        return tuple(seen[0].tolist()), tuple(seen[1].tolist())

    @property
    def unknowns(self) -> Mapping[str, Unknown]:
        """The numbers that are sought, by name; not to be changed."""
        return self._unknowns

    @property
    def unknown_functions(self) -> Mapping[str, PlacedFunction]:
        """The functions that are sought, by name; not to be changed."""
        return MappingProxyType(self._functions)

    @property
    def name(self) -> str:
        """The problem's name, possibly empty."""
        return self._name

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the loss: equations, conditions, priors of unknowns."""
        return self._terms

    @property
    def terms_of_conditions(self) -> tuple[tuple[Condition, Term], ...]:
        """Each condition, in their order, with its term of the loss."""
        return tuple(zip(self._conditions, self._terms[len(self._residuals) :], strict=True))

    @property
    def exact(self) -> Callable[[npt.ArrayLike], FloatArray] | None:
        """The exact solution as x: [n, d] -> [n, m] (NumPy, float64), or None."""
        return None if self._exact is None else self._evaluate_exact

    @property
    def exact_function(self) -> Exact | None:
        """The exact solution as it was given, or None."""
        return self._exact

    def __repr__(self) -> str:
        terms = ", ".join(term.name for term in self._terms)
        return f"Problem({self._name!r}, {self._domain!r}, outputs={self.outputs}, terms: {terms})"

    def with_condition_weight(self, weight: float) -> Self:
        """Return the problem with this weight for conditions without one (local).

        Conditions with a weight, and equations, keep theirs. `train` uses this weight; otherwise
        the optimizer may choose another weight than 1 for these conditions.

        Parameters
        ----------
        weight : float
            Factor of the mean square in the loss; non-negative, dimensionless.

        Returns
        -------
        Problem
            Of the same class, and with all else that this one has; this one stays as it is.

        Raises
        ------
        InputError
            The weight is not a finite number, or negative.

        Examples
        --------
        >>> from sciml_par.problems import Dirichlet, Interval, Problem, derivative
        >>> problem = Problem(
        ...     Interval(0, 1), lambda u, x: derivative(u, x, 0), conditions=[Dirichlet(1.0)]
        ... )
        >>> [term.weight for term in problem.with_condition_weight(50).terms]
        [1.0, 50.0]
        """
        # The constructor of a subclass may take anything, so it is not called.
        other = copy.copy(self)
        other._condition_weight = checked_weight(weight, "with_condition_weight")
        parts: list[Residual | Condition] = [*self._residuals, *self._conditions]
        other._terms = tuple(
            term.with_weight(self._term_weights.get(term.name, other._weight_of(part)))
            for term, part in zip(self._terms, parts, strict=True)
        )
        return other

    def with_term_weights(self, weights: Mapping[str, float]) -> Self:
        """Return the problem in which some terms of the loss have these weights (local).

        They replace the weights of the residuals and conditions.

        Parameters
        ----------
        weights : mapping of str to float
            Factors of the mean squares by the names of terms; non-negative, dimensionless.

        Returns
        -------
        Problem
            Of the same class, and with all else that this one has; this one stays as it is.

        Raises
        ------
        InputError
            The loss has no term of this name, or a weight is not a finite number, or negative.

        Examples
        --------
        >>> from sciml_par.problems import Dirichlet, Interval, Problem, derivative
        >>> problem = Problem(
        ...     Interval(0, 1), lambda u, x: derivative(u, x, 0), conditions=[Dirichlet(1.0)]
        ... )
        >>> [term.weight for term in problem.with_term_weights({"dirichlet": 10}).terms]
        [1.0, 10.0]
        """
        names = [term.name for term in self._terms]
        other = copy.copy(self)
        other._term_weights = self._term_weights | checked_term_weights(weights, names)
        other._terms = other._with_weights(self._terms)
        return other

    def with_shifts(self, shifts: Mapping[str, FloatArray]) -> Self:
        """Return the problem in which residuals are to have the values e, not zero (local).

        Parameters
        ----------
        shifts : mapping of str to array
            e: [N, c] by the names of terms of conditions, with as many rows as these have points.
            A term that is shifted again keeps its function: many such problems are stacked.
        """
        other = copy.copy(self)
        other._terms = tuple(
            term.shifted() if term.name in shifts else term for term in self._terms
        )
        for term in self._terms:
            if term.name in shifts:
                e = shifts[term.name]
                given = term.points(len(e))[: -1 if term.is_shifted else None]
                other = other.with_arrays(term.name, (*given, e))
        return other

    def with_condition(self, condition: Condition, *, weight: float) -> Self:
        """Return the problem with one more condition, the last term of its loss (local)."""
        prepared = condition.prepared(self._domain, self._output_names)
        other = copy.copy(self)
        other._conditions = (*self._conditions, prepared)
        name = unique([*(term.name for term in self._terms), prepared.name or prepared.kind])[-1]
        other._terms = (*self._terms, self._term(name, prepared, weight))
        other._term_weights = self._term_weights | {name: weight}
        return other

    def with_arrays(self, name: str, arrays: Arrays) -> Self:
        """Return the problem with other arrays for the condition of this name (local)."""
        other = copy.copy(self)
        conditions = list(self._conditions)
        at = [term.name for term in self._terms].index(name) - len(self._residuals)
        conditions[at] = conditions[at].with_arrays(arrays)
        other._conditions = tuple(conditions)
        terms = list(self._terms)
        points = partial(conditions[at].points, self._domain)
        terms[len(self._residuals) + at] = terms[len(self._residuals) + at].with_points(points)
        other._terms = tuple(terms)
        return other

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Return the problem whose unknowns are known (local).

        Parameters
        ----------
        values : dict
            A number, an array or a function of points in TensorFlow for each unknown, by name.

        Returns
        -------
        Problem
            Of the same class, without unknowns and their priors; this one stays as it is.

        Raises
        ------
        InputError
            An unknown has no value, or a name is not that of an unknown.

        Examples
        --------
        >>> from sciml_par.problems import Interval, Problem, Unknown, derivative
        >>> problem = Problem(
        ...     Interval(0, 1),
        ...     lambda u, x, *, k: derivative(u, x, 0) + k * u(x),
        ...     unknowns={"k": Unknown(1.0)},
        ... )
        >>> dict(problem.with_values({"k": 2.0}).unknowns)
        {}
        """
        sought = [*self._unknowns, *self._functions]
        if set(values) != set(sought):
            raise InputError(
                f"problem {self._name!r} has the unknowns {', '.join(sought) or 'none'}; got "
                f"values of {', '.join(values) or 'none'}."
            )
        other = copy.copy(self)
        other._unknowns, other._functions = MappingProxyType({}), {}
        other._values = dict(values)
        other._conditions = tuple(
            condition._changed(name=term.name)
            for condition, term in self.terms_of_conditions
            if not isinstance(condition, PriorCondition)
        )
        other._terms = other._with_weights(other._make_terms())
        return other

    @property
    def holds_out(self) -> bool:
        """Whether values are held out, by which the best weights are chosen."""
        return any(condition.held_out is not None for condition in self.conditions)

    def without_slabs(self) -> Self:
        """Return the problem on its whole time, which no slabs divide (local)."""
        if len(self.domain.slabs) == 1:
            return self
        other, ends = copy.copy(self), (self.domain.lower[-1], self.domain.upper[-1])
        other._domain = self.domain._between(*map(float, ends))  # type: ignore[attr-defined]
        return other

    def unscaled(self) -> Self:
        """Return the problem for functions that see x itself, and give u (local)."""
        other = copy.copy(self)
        other._input_scaling, other._scaling, other._open_ranges = False, None, False
        return other

    def with_finer_integrals(self) -> Self:
        """Return the problem with more points in integrals whose points nobody chose (local)."""
        finer = tuple(each.finer() for each in self._conditions)
        if finer == self._conditions:
            return self
        other = copy.copy(self)
        other._conditions = finer
        other._terms = other._with_weights(other._make_terms())
        return other

    def on_slab(
        self, slab: Domain, *, scaled_box: tuple[FloatArray, FloatArray] | None = None
    ) -> Self:
        """Return the problem on one of the slabs of its domain (local).

        Conditions at the initial time are those of the whole problem, but at the beginning of the
        slab; see `starting_from`.

        Parameters
        ----------
        slab : one of `Domain.slabs`.
        scaled_box : the corners of the box that the network sees as [−1, 1]^d; None for x itself.

        Raises
        ------
        InputError
            Something of the problem cannot be divided among slabs.
        """
        if self._unknowns or self._functions:
            sought = ", ".join([*self._unknowns, *self._functions])
            raise InputError(
                f"problem {self._name!r} has unknowns ({sought}), which slabs of time would find "
                f"one after another, each another value; leave out slabs=."
            )
        other = copy.copy(self)
        other._domain, other._input_scaling = slab, scaled_box is not None
        corners = None if scaled_box is None else corners_of(*scaled_box)
        other._scaling = Scaling.of(corners, self.output_ranges)
        named = self.terms_of_conditions
        # Slabs may have fewer conditions, and those that they have keep their names.
        found = [each._changed(name=term.name).on_slab(self._domain, slab) for each, term in named]
        other._conditions = tuple(each for each in found if each is not None)
        other._terms = other._with_weights(other._make_terms())
        return other

    def starting_from(self, before: Before, *, also: Sequence[Condition] = ()) -> Self:
        """Return the problem of a slab, beginning with values of the slab before (local).

        Parameters
        ----------
        before : (x: [k, d], q) -> ∂^q u/∂t^q at x: [k, m], in NumPy.
        also : further conditions, in place of initial values that an ansatz may have.

        Raises
        ------
        InputError
            The problem has no condition at the initial time.
        """
        other = copy.copy(self)
        other._conditions = tuple(
            each.starting_from(before, self._domain) for each in self._conditions
        )
        prepared = [each.prepared(self._domain, self.output_names) for each in also]
        other._conditions += tuple(prepared)
        if other._conditions == self._conditions:
            raise InputError(
                f"problem {self._name!r} has no condition at the initial time, which the end of "
                f"a slab of time could replace in the next one; give Initial(…), also where an "
                f"ansatz has the initial values, or leave out slabs=."
            )
        other._terms = other._with_weights(other._make_terms())
        return other

    def _with_weights(self, terms: tuple[Term, ...]) -> tuple[Term, ...]:
        return tuple(
            term.with_weight(self._term_weights.get(term.name, term.weight)) for term in terms
        )

    def for_network(self, model: Any) -> Self:
        """Return the problem with the default scaling of inputs, unless it was given (local).

        Parameters
        ----------
        model : object
            A network. Its inputs are scaled if its attribute `sees_scaled_inputs` is true, and the
            domain exceeds ±10 in a coordinate or has a side shorter than 0.1.

        Returns
        -------
        Problem
            This one, or one of the same class whose `input_scaling` is True.
        """
        open_to_it = self._input_scaling is None and getattr(model, "sees_scaled_inputs", False)
        if not open_to_it or not is_unusual(self._domain.lower, self._domain.upper):
            return self
        other = copy.copy(self)
        other._input_scaling = True
        other._scaling = Scaling.of(self._corners, self.output_ranges)
        return other

    def with_output_ranges(self, ranges: Ranges | None) -> Self:
        """Return the problem with these ranges of its components, which `train` keeps (local).

        Parameters
        ----------
        ranges : tuple of (low, high), one for each component
            In the units of u; (−1, 1) for an output of the network itself. None for u = N.
        """
        other = copy.copy(self)
        other._scaling, other._open_ranges = Scaling.of(self.scaled_box, ranges), False
        return other

    def field(
        self,
        network: Field | Function,
        *,
        jet: JetFunction | None = None,
        unknowns: Mapping[str, Any] | None = None,
    ) -> Field:
        """Build the field u of a network, by the scaling of inputs and the ansatz (local).

        Parameters
        ----------
        network : Field or callable [n, d] -> [n, m]
            N, whose weights are bound.
        jet : callable, optional
            Of N, as for `Field`. With it, an ansatz that evaluates N at x alone costs little more
            than N; any other ansatz is differentiated by nested tapes.
        unknowns : dict of str to tensor, Field or callable, optional
            Values of the problem's unknowns for the residuals; by default their start values. An
            unknown function may be any function of x.

        Returns
        -------
        Field
            With the problem's names.

        Examples
        --------
        >>> import tensorflow as tf
        >>> from sciml_par.problems import Interval, Problem, derivative
        >>> problem = Problem(
        ...     Interval(0, 1), lambda u, x: derivative(u, x, 0), ansatz=lambda N, x: x * N(x)
        ... )
        >>> u = problem.field(lambda x: x**2)
        >>> derivative(u, tf.constant([[2.0]]), 0).numpy()
        array([[12.]], dtype=float32)
        """
        plain = network if isinstance(network, Field) else Field(network, jet=jet)
        scaling = self.for_network(network)._scaling
        scaled = plain if scaling is None else scaling.field(plain)
        names = self._domain.names
        if self._ansatz is None:
            field = scaled
        else:
            field = self._ansatz.field(scaled.with_names(names, None))
        field = field.with_names(names, self._output_names)
        return field if unknowns is None else field.with_unknowns(unknowns)

    def check(
        self,
        u: Any,
        *,
        n: int = 64,
        arrays: Sequence[Arrays] | None = None,
        dtype: str = "float32",
        reads_variables: bool = True,
        unknowns: Mapping[str, Any] | None = None,
    ) -> None:
        """Run every residual once in a throw-away graph, before any training (local).

        Parameters
        ----------
        u : Field or callable [n, d] -> [n, m]
            The field of the network, before scaling and ansatz.
        n : int
            Points of each term, as for `Term.points`; residuals are traced, not computed.
        arrays : sequence of tuples of arrays, optional
            The arrays of each term, in place of its n points.
        dtype : str
            Of the field.
        reads_variables : bool
            Whether u may read trainable variables. It must not if its weights are passed to it, as
            training would not change the variables.
        unknowns : dict, optional
            As for `field`.

        Raises
        ------
        InputError
            The field has the wrong number of components. A residual or the ansatz returns the wrong
            kind, shape or dtype, or reads a trainable variable that is not one of u's; see
            `Term.check`.
        """
        check_problem(
            self, as_field(u), n, arrays, dtype, unknowns=unknowns, reads_variables=reads_variables
        )

    @property
    def _corners(self) -> Corners:
        return corners_of(self._domain.lower, self._domain.upper)

    def _evaluate_exact(self, x: npt.ArrayLike) -> FloatArray:
        points = np.asarray(x, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self._domain.dimension:
            raise InputError(
                f"exact: points must have the shape [n, {self._domain.dimension}], "
                f"got {list(points.shape)}"
            )
        assert self._exact is not None
        what = f"the exact solution of problem {self._name!r}"
        return values_at(self._exact, points, what=what, columns=self.outputs, reads_variables=True)

    def _make_terms(self) -> tuple[Term, ...]:
        parts: list[Residual | Condition] = [*self._residuals, *self._conditions]
        names = unique([part.name or part.kind for part in parts])
        named = zip(names, parts, strict=True)
        return tuple(self._term(name, part, self._weight_of(part)) for name, part in named)

    def _term(self, name: str, part: Residual | Condition, weight: float) -> Term:
        points = partial(part.points, self._domain)
        function, sums = residual_of(part, self._starts(), name), None
        if isinstance(part, Condition) and part.single is not None:
            sums = Sums(with_part(function, part.single), part.sums)
        return Term(name, weight, points, function, self._name, sums)

    def _starts(self) -> dict[str, Any]:
        """Return the values at which all unknowns start, and those of `with_values`."""
        numbers = {name: unknown.start for name, unknown in self._unknowns.items()}
        functions = {name: function.start for name, function in self._functions.items()}
        return {**self._values, **numbers, **functions}

    def _weight_of(self, part: Residual | Condition) -> float:
        given = self._condition_weight if part.weight is None else part.weight
        # Weights of columns are factors of the residual itself.
        return 1.0 if given is None or isinstance(given, Sequence) else float(given)
