"""The one kind of error that a user can mend: its message says what was given, what is allowed, what to do next."""

from __future__ import annotations


class UserError(Exception):
    """Something about options, data or the installation that the message tells how to mend."""
