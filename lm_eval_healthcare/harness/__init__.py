"""Everything that touches lm-eval: task classes, task discovery, running, switching the pack on and off.

No other part of the package imports lm_eval, so that a new harness version changes only this folder.
"""
