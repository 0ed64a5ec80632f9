"""A saved MLP is found by Keras in any program that imports sciml_par, in whatever order."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sciml_par.networks import MLP

ROOT = Path(__file__).parents[2]
PROGRAM = """
{imports}
model = keras.models.load_model("model.keras")
assert type(model).__module__ == "sciml_par.networks.models.mlp", type(model)
assert not [f for f in sys.meta_path if type(f).__module__.startswith("sciml_par")]
print(float(model(np.full((1, 2), 0.3, "float32"))[0, 0]))
"""


@pytest.mark.launches
@pytest.mark.parametrize(
    "imports",
    [
        "import numpy as np, sciml_par, sys, keras",
        "import numpy as np, sys, keras, sciml_par",
        # TensorFlow looks for Keras while it is being imported itself.
        "import numpy as np, sciml_par, sys, tensorflow as tf; keras = tf.keras",
    ],
)
def test_a_saved_mlp_is_loaded_after_import_of_the_package(imports, tmp_path):
    model = MLP(2, 1, width=3, seed=4)
    model.save(tmp_path / "model.keras")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(imports=imports)],
        capture_output=True,
        check=False,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    expected = float(model(np.full((1, 2), 0.3, "float32"))[0, 0])
    assert float(done.stdout.splitlines()[-1]) == pytest.approx(expected, rel=1e-6)
