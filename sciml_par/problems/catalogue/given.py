"""Conditions on some components of a field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sciml_par._tensorflow import tf
from sciml_par.problems.conditions.dirichlet import Dirichlet


@dataclass(frozen=True)
class Given(Dirichlet):
    """u_c = value_c on the boundary for some components c; value(x) has as many columns."""

    kind: ClassVar[str] = "given"
    components: tuple[int, ...] = ()

    def residual(self, u: Any, x: Any, normals: Any) -> Any:
        """Left side minus right side: [k, number of components]."""
        return super().residual(lambda z: tf.gather(u(z), self.components, axis=1), x, normals)
