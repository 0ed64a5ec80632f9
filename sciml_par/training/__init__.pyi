from .adam import Adam as Adam
from .member import Comparison as Comparison
from .member import ComparisonElsewhere as ComparisonElsewhere
from .member import Member as Member
from .member import Portion as Portion
from .result import Result as Result
from .train import train as train
