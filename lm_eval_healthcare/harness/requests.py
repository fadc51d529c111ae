"""Request types of the pack: the only place that adds methods to the harness's `LM`.

The evaluator calls `getattr(lm, instance.request_type)(instances)`. A request type of our own therefore needs a method
of that name on every model, whatever its class: one that is put on the base class `lm_eval.api.model.LM`, and that
chooses by the model's class how to answer. A model that brings a method of that name itself keeps it.

A module that has a request type registers its function when it is imported; `install()` puts what is registered on
`LM`. Nothing of the harness is replaced. Under `--use_cache` the harness wraps the model in `CachingLM`, which hands
unknown methods on to the model without looking into the cache: functions that want the cache use `lm.cache_hook`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lm_eval.api.model import LM

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

Answer = Callable[[Any, "list[Instance]"], "list[Any]"]

_registered: dict[str, Answer] = {}


def register(name: str, function: Answer) -> None:
    """Declare a request type.

    Args:
        name: The request type, an identifier, which becomes a method of every model.
        function: Takes the model and the Instances of one evaluation, repeats and padding included, and returns one
            answer each, in their order.

    Raises:
        ValueError: If the name is no identifier, or another function has it.
    """
    if not name.isidentifier() or name.startswith("_"):
        raise ValueError(f"request type {name!r} given; it becomes a method, so use a public Python identifier")
    if _registered.setdefault(name, function) is not function:
        raise ValueError(f"request type {name!r} is registered already; choose another name")


def install() -> None:
    """Put a method for every registered request type on `LM`; more than once does no harm.

    Raises:
        RuntimeError: If the installed harness has something else of that name.
    """
    for name, function in _registered.items():
        found = getattr(LM, name, None)
        if found is None:
            setattr(LM, name, _method(name, function))
        elif getattr(found, "_request_type_of", None) is not function:
            raise RuntimeError(f"this lm-eval brings a method {name} of its own; use lm-eval 0.4.12 or 0.4.13")


def _method(name: str, function: Answer) -> Callable[..., list[Any]]:
    def answer(self: LM, requests: list[Instance]) -> list[Any]:
        return function(self, requests)

    answer.__name__ = name
    answer.__qualname__ = f"LM.{name}"
    answer.__doc__ = function.__doc__
    answer._request_type_of = function  # type: ignore[attr-defined]
    return answer
