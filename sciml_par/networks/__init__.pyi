from .activation import ACTIVATIONS as ACTIVATIONS
from .activation import Activation as Activation
from .activation import activation_named as activation_named
from .mlp import MLP as MLP
from .taylor import jet as jet
