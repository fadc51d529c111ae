"""How the command line tells its user that something is wrong."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TypeVar

from lm_eval_healthcare.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def report_errors(command: Callable[[T], int], argument: T) -> int:
    """Call a command; turn the errors that a user can mend into one message and exit code 2."""
    try:
        return command(argument)
    except UserError as error:
        print(f"lm-eval-healthcare: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
