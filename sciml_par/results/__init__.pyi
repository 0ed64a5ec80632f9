from .member import History as History
from .member import Member as Member
from .member import PredictionElsewhere as PredictionElsewhere
from .member import RankContribution as RankContribution
from .member import Weights as Weights
from .predict import EnsemblePrediction as EnsemblePrediction
from .result import Result as Result
from .unknown_values import FoundUnknown as FoundUnknown
