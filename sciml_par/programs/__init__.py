"""What command-line programs on this package share; see scripts/ and docs/examples.md."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
