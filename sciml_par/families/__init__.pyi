from .answers import Answer as Answer
from .answers import Answers as Answers
from .learn import learn as learn
from .operator import Operator as Operator
