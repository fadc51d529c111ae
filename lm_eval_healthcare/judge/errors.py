"""What a user can mend about a judge."""

from __future__ import annotations

from lm_eval_healthcare.errors import UserError


class JudgeError(UserError, ValueError):
    """The judge, its rubric or an option of it cannot be used; the message says what to do."""
