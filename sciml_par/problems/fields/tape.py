"""Derivatives by tapes, which are in a private module for networks to read as well."""

from sciml_par._tape import is_watched as is_watched
from sciml_par._tape import value_and_jacobian as value_and_jacobian
