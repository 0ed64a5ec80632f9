from . import common as common
from . import keras as keras
from . import tensorflow as tensorflow
from .runner import run as run
