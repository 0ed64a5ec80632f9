"""Keras for the definitions of layers and models, imported without TensorFlow's messages."""

from typing import TYPE_CHECKING

from sciml_par._tensorflow import import_module

if TYPE_CHECKING:
    import keras as keras
else:
    keras = import_module("keras")
