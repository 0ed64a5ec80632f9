"""A fake of cupy.cuda: the two modules that are used."""
