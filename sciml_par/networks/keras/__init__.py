"""Any Keras model as a network."""
