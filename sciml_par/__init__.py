"""sciml_par: physics-informed and ensemble scientific machine learning, parallel over MPI."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
