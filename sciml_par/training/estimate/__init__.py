"""How wrong a trained field is, by richer features that solve the linearised equation."""
