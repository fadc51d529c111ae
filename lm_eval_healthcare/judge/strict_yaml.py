"""YAML of users: no key twice, no unknown key, and messages that say where and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Mapping
from typing import Any

import yaml

from lm_eval_healthcare.judge.errors import JudgeError


class _Loader(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error, and not the last one's silent victory."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is a list or a mapping", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key '{key.value}' stands twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_yaml(where: str, content: bytes) -> object:
    """Read a YAML file in which no key may stand twice.

    Args:
        where: How messages call the file.
        content: Its bytes, UTF-8.

    Raises:
        JudgeError: If it is not YAML, or a key stands twice.
    """
    try:
        return yaml.load(content.decode("utf-8-sig"), Loader=_Loader)
    except UnicodeDecodeError as error:
        raise JudgeError(f"{where}: not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError) as error:
        # The last three come from values that are not of the kind that their tag says, such as `!!bool x`.
        raise JudgeError(f"{where}: cannot be read as YAML: {' '.join(str(error).split())}") from error


def mapping(where: str, found: object) -> Mapping[Any, Any]:
    """Return a mapping that was read.

    Args:
        where: How messages call its place.
        found: What was read.

    Raises:
        JudgeError: If it is something else.
    """
    if not isinstance(found, dict):
        raise JudgeError(f"{where}: is {kind_of(found)}; expected keys with values")
    return found


def known_keys(where: str, found: Mapping[Any, Any], needed: tuple[str, ...], optional: tuple[str, ...]) -> None:
    """See that a mapping has the keys that it must have, and none but those that it may have.

    Args:
        where: How messages call its place.
        found: The mapping.
        needed: Keys that it must have.
        optional: Keys that it may have.

    Raises:
        JudgeError: If not.
    """
    allowed = [*needed, *optional]
    for key in found:
        if key not in allowed:
            near = difflib.get_close_matches(str(key), allowed, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise JudgeError(f"{where}: unknown key '{key}'{hint}. Allowed: {', '.join(allowed)}.")
    for key in needed:
        if key not in found:
            raise JudgeError(f"{where}: has no '{key}'; needed: {', '.join(needed)}")


def kind_of(value: object) -> str:
    """Return what a value that was read is, in words."""
    if value is None:
        return "empty"
    names: dict[type, str] = {str: "a text", bool: "yes or no", int: "a number", float: "a number", list: "a list"}
    return names.get(type(value), "of another kind")
