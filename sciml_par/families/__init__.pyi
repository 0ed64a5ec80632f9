from .answers import Answer as Answer
from .answers import Answers as Answers
from .learn import learn as learn
from .operator import Operator as Operator
from .pairs import Pairs as Pairs
from .pairs_operator import PairsAnswer as PairsAnswer
from .pairs_operator import PairsOperator as PairsOperator
