"""The classes of `sciml_par.results` that are also names of `sciml_par.training`."""

from sciml_par.results.member import Member as Member
from sciml_par.results.result import Result as Result
