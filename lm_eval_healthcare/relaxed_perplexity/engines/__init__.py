"""Engines: the ways of asking a model, all of which give the same numbers."""
