"""`python -m sciml_par.info` is `sciml-par info`, where that is not on PATH."""

import sys

from sciml_par.info.main import main

if __name__ == "__main__":
    main(["info", *sys.argv[1:]])
