from ._results import Comparison as Comparison
from ._results import ComparisonElsewhere as ComparisonElsewhere
from ._results import Member as Member
from ._results import Portion as Portion
from ._results import Result as Result
from .optimizers.adam import Adam as Adam
from .points.points import Points as Points
from .train import train as train
