"""The classes of `sciml_par.results`, by the names that they have had in `sciml_par.training`."""

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.results.member import Member as Member
from sciml_par.results.member import PredictionElsewhere, RankContribution
from sciml_par.results.result import Result as Result

Comparison = Prediction
ComparisonElsewhere = PredictionElsewhere
Portion = RankContribution
