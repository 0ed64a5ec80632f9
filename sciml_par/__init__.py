"""sciml_par: physics-informed and ensemble scientific machine learning, parallel over MPI."""

import lazy_loader

from sciml_par._keras_classes import register_with_keras

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register_with_keras()
