from .activation import ACTIVATIONS as ACTIVATIONS
from .activation import Activation as Activation
from .activation import activation_named as activation_named
from .factory import make_network as make_network
from .from_model import as_network as as_network
from .mlp import MLP as MLP
from .network import Network as Network
from .taylor import jet as jet
