"""`python -m sciml_par.console` is `sciml-par`, where that is not on PATH."""

from sciml_par.console.main import main

if __name__ == "__main__":
    main()
