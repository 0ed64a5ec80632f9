"""The errors that sciml_par raises on purpose, below every other module."""


class SciMLParError(Exception):
    """Base of every error that sciml_par raises on purpose."""

    # Lets it leave a `tf.function` as it is; AutoGraph would wrap it in another error.
    ag_pass_through = True


class InputError(SciMLParError, ValueError):
    """Something that the caller passed cannot be used; the message says what to pass instead."""


class OutputError(SciMLParError, OSError):
    """A folder or file of results cannot be written; nothing was overwritten."""


class NotInitializedError(SciMLParError, RuntimeError, ValueError):
    """A call needs ranks, but `sciml_par.init()` has not run, or `shutdown()` has."""


class CollectiveMismatchError(SciMLParError, RuntimeError):
    """The ranks did not ask for the same collective; the message says what each asked for."""


class TransferError(SciMLParError, RuntimeError):
    """MPI or NCCL could not carry out a collective; the ranks cannot continue together."""


class TrainingError(SciMLParError, ArithmeticError):
    """Training cannot continue, for example because the loss is not a finite number."""


class ResultWarning(RuntimeWarning):
    """What `train` reports of a result that is in doubt; the printed result reports the same."""
