"""How a program begins and ends: its options, the folder of its results, and its exit code."""

# Annotations are objects in this package: Cyclopts reads those of a class in other modules too.
import contextlib
import io
import math
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from cyclopts import App, CycloptsError, Parameter, Token

from sciml_par._text import listed
from sciml_par.errors import InputError, ResultWarning, SciMLParError
from sciml_par.parallel.groups import world as parallel_world
from sciml_par.parallel.startup.launcher_environment import launched_rank
from sciml_par.results.member import SIGNALS, WALL_TIME
from sciml_par.results.stored.folder import claim_folder, claim_numbered_folder

if TYPE_CHECKING:
    from sciml_par.results.result import Result

T = TypeVar("T")

_BAD_INPUT, _NOT_SOUND = 2, 3
STOPPED = 75
"""EX_TEMPFAIL of sysexits.h: not done yet, to be tried again. For job scripts."""
_FAULTS = {
    "not finite": "ended because the loss was not finite",
    "diverged": "ended with a loss far above the best",
}


def option_where(
    read: Callable[[str], T],
    accepts: Callable[[T], bool],
    expected: str,
    metavar: str = "N",
    *,
    repeated: bool = False,
) -> Parameter:
    """Return the annotation of an option with a rule, such as "an integer ≥ 1".

    Parameters
    ----------
    read : converts a text, or raises `ValueError`.
    accepts : whether a value is as `expected`.
    repeated : whether the option is a list, of the values of all its occurrences.
    """

    def value_of(text: str) -> T:
        with contextlib.suppress(ValueError):
            if accepts(value := read(text)):
                return value
        raise ValueError(f"expected {expected}; got {text!r}.")

    def convert(_: Any, tokens: Sequence[Token]) -> T | list[T]:
        values = [value_of(token.value) for token in tokens]
        return values if repeated else values[-1]

    return Parameter(converter=convert, n_tokens=1, metavar=metavar)


def integer_from(least: int) -> Parameter:
    """Return the annotation of an option that is an integer ≥ `least`."""
    return option_where(int, lambda value: value >= least, f"an integer ≥ {least}")


PositiveInteger = Annotated[int, integer_from(1)]
NaturalNumber = Annotated[int, integer_from(0)]
PositiveNumber = Annotated[
    float, option_where(float, lambda value: 0 < value < math.inf, "a number > 0", "X")
]
Switch = Annotated[bool, Parameter(negative_bool="no-")]
"""Types of options; a `Switch` x has --no-x as well. A plain `int` would round 1.5."""


class Options:
    """Options of a command line: a subclass is a dataclass whose fields' docstrings are --help."""

    program: str
    """The program's name, in messages and in the default folder."""

    @classmethod
    def parse(
        cls,
        description: str | None,
        *,
        arguments: Sequence[str] | None = None,
        program: str | None = None,
    ) -> Self:
        """Return the options of the command line; call it before `init`, in the `main` of `run`.

        Parameters
        ----------
        description : text of --help.
        arguments : the words after the program's name; those of the process by default.
        program : its name; that of its file by default.

        Raises
        ------
        InputError
            Invalid options.
        SystemExit
            After --help, which rank 0 prints.
        """
        app = cls.app(description, program or program_name())
        words = sys.argv[1:] if arguments is None else arguments
        with only_rank_0_prints():
            try:
                options: Self | None = app(words)
            except CycloptsError as error:
                raise InputError(f"{error} --help lists the options.") from None
        if options is None:  # --help was asked for
            sys.exit()
        options.program = app.name[0]
        options.complete()
        return options

    @classmethod
    def app(cls, description: str | None, program: str) -> App:
        """Return what reads a command line; of an option that is repeated, the last value holds."""

        def command(options: Any = cls()) -> Any:  # noqa: B008 - Cyclopts asks for an instance
            return options

        def shown(default: Any) -> str | None:
            return None if default in (None, (), []) or default is False else str(default)

        command.__annotations__["options"] = Annotated[cls, Parameter(name="*")]
        return App(
            program,
            re.sub(r"(?<=\S)\n(?=\S)", " ", description or ""),  # a paragraph is one line
            default_command=command,
            help_format="plaintext",
            version_flags=[],
            default_parameter=Parameter(
                negative_bool=(), negative_iterable=(), allow_repeating=True, show_default=shown
            ),
            group_arguments="Options",
            group_parameters="Options",
            group_commands="Options",
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )

    def complete(self) -> None:
        """Refuse options that contradict each other, and set those that are left out."""


@dataclass(kw_only=True)
class ProgramOptions(Options):
    """Options of all programs that write results."""

    output: Annotated[Path | None, Parameter(metavar="DIR")] = None
    """folder for results (default in runs/, numbered if it already exists)"""
    overwrite: bool = False
    """allow --output to name a folder with the results of another run"""
    verbose: bool = False
    """show TensorFlow's messages"""

    @property
    def default_folder(self) -> Path:
        """The default folder for the results, before it gets a number."""
        return Path("runs") / self.program

    @contextlib.contextmanager
    def output_folder(self) -> Iterator[Path]:
        """Claim the folder for the results, before any work is done (collective after `init`).

        Without --output it is the default folder with the first free number, and is removed if the
        work within leaves it empty.
        """
        numbered: list[Path] = []

        def claim() -> Path:
            if self.output is not None:
                may_replace = self.overwrite or bool(getattr(self, "resume", False))
                return claim_folder(self.output, overwrite=may_replace)
            numbered.append(claim_numbered_folder(self.default_folder))
            return numbered[0]

        world = parallel_world.world
        try:
            yield claim() if world is None else world.communicator.on_root(claim)
        finally:
            for folder in numbered:
                with contextlib.suppress(OSError):  # it is not empty, as it should be
                    folder.rmdir()
                    folder.parent.rmdir()


def program_name() -> str:
    """Return the name of the running program in messages: that of its file."""
    return Path(sys.argv[0]).stem


@contextlib.contextmanager
def only_rank_0_prints() -> Iterator[None]:
    """Print on rank 0 alone, also before there are ranks."""
    nowhere = io.StringIO() if launched_rank(os.environ) else None
    err, out = nowhere or sys.stderr, nowhere or sys.stdout
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        yield


def run(main: Callable[[], int | None], *, program: str | None = None) -> None:
    """Run a program's `main`; an error of its input is one line and exit code 2 (collective).

    Parameters
    ----------
    main : returns the exit code, the same on all ranks, or None.
    program : its name in messages; the name of its file by default.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResultWarning)  # the table that follows has it
            code = main()
    except SciMLParError as error:
        text = f"{program or program_name()}: error: {error}"
        if parallel_world.world is not None:
            parallel_world.world.failures.report(error, text, exit_code=_BAD_INPUT)
        else:
            with only_rank_0_prints():
                print(text, file=sys.stderr)
        sys.exit(_BAD_INPUT)
    if code:
        sys.exit(code)


def conclude(result: "Result", folder: Path, *, program: str | None = None) -> int:
    """Print on rank 0 where the results are, and whether all is well with them.

    Returns
    -------
    The exit code, the same on all ranks: 0; 75 where a signal or the wall time stopped the
    training, which can be resumed; or 3 where a member ended because of its loss, or with one far
    above its best. The results are written in any case.
    """
    members, texts = result.members, []
    stopped = [m.ended for m in members if m.ended in (*SIGNALS, WALL_TIME)]
    if stopped:
        again = f"--resume with --output {folder} continues"
        texts.append(f"stopped by {stopped[0]} before the last step; {again}")
    if not result.sound:
        counts = Counter(member.status for member in members)
        kinds = [kind for kind in _FAULTS if counts[kind]]
        faults = [f"{counts[kind]} of {len(members)} {_FAULTS[kind]}" for kind in kinds]
        texts.append(f"not all is well: of the models, {listed(faults)}.")
    if result.communicator is None or result.communicator.rank == 0:
        print(f"results in {folder}", flush=True)
        for text in texts:
            print(f"{program or program_name()}: {text}", file=sys.stderr)
    return STOPPED if stopped else 0 if result.sound else _NOT_SOUND
