"""The functions of this package that a task's YAML names, such as `pubmedqa.official_split`."""

from __future__ import annotations

import importlib
from typing import Any


def named(name: str) -> Any:
    """Return the function that `module.function` names in this package.

    Raises:
        ValueError: If there is no such module or function.
    """
    module, _, function = name.partition(".")
    try:
        return getattr(importlib.import_module(f"{__package__}.{module}"), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"'{name}': no such function in {__package__}; shape, prepare and readers of a task's YAML name one as "
            "module.function"
        ) from error
