"""Reading the harness's command-line values the way the harness reads them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from lm_eval._cli.utils import MergeDictAction

from lm_eval_healthcare.harness.options import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence


def metadata_from_arguments(values: Sequence[str]) -> dict[str, Any]:
    """Parse the values of `--metadata`: `key=value` items or one JSON object.

    Raises:
        OptionError: If a value is neither.
    """
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    parser.add_argument("--metadata", nargs="*", action=MergeDictAction, default=None)
    parser.error = _raise  # type: ignore[method-assign]
    try:
        parsed = parser.parse_args(["--metadata", *values]).metadata
    except (argparse.ArgumentError, ValueError) as error:
        raise OptionError(f"--metadata: {error}") from error
    return dict(parsed or {})


def _raise(message: str) -> Any:
    raise OptionError(message)
