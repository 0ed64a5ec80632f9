"""How TensorFlow is imported."""

import gc
import weakref

from sciml_par._tensorflow import import_module


class _Cycle:
    def __init__(self) -> None:
        self.me = self


def test_the_garbage_collector_leaves_tensorflow_alone_and_collects_all_else() -> None:
    # Objects of the module that `init` has imported; a collection of them takes half a second.
    assert gc.get_freeze_count() > 100_000
    assert gc.isenabled()
    gone = weakref.ref(_Cycle())
    frozen = gc.get_freeze_count()
    assert import_module("tensorflow").__name__ == "tensorflow"
    assert gc.get_freeze_count() == frozen
    gc.collect()
    assert gone() is None
