"""How the command line tells its user that something is wrong."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def report_errors(command: Callable[[T], int], argument: T) -> int:
    """Call a command; turn the errors that a user can mend into one message and exit code 2."""
    from lm_eval_healthcare.data.files import DataError

    try:
        return command(argument)
    except DataError as error:
        return _say(error)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if type(error).__name__ in ("OptionError", "StubError") or isinstance(error, FileNotFoundError):
            return _say(error)
        raise


def _say(error: Exception) -> int:
    print(f"lm-eval-healthcare: {error}", file=sys.stderr)
    return 2
