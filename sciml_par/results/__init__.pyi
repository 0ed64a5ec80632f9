from .member import Member as Member
from .member import PredictionElsewhere as PredictionElsewhere
from .member import RankContribution as RankContribution
from .result import Result as Result
