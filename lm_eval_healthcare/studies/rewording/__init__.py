"""Saved answers in other words: by a model, with checks of every text, or by fixed rules."""
