"""A few loaded models, kept while they are in use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from lm_eval_healthcare.metrics.encoding.batches import free_memory

Model = TypeVar("Model")
_everywhere: WeakSet[Warm[Any]] = WeakSet()


class Warm(Generic[Model]):
    """The models used last; loading one more than there is room for lets the oldest go."""

    def __init__(self, capacity: int = 2) -> None:
        """Start empty."""
        self._capacity = capacity
        self._models: OrderedDict[Hashable, Model] = OrderedDict()
        _everywhere.add(self)

    def get(
        self, key: Hashable, load: Callable[[], Model], good: Callable[[Model], bool] = lambda model: True
    ) -> Model:
        """Return the model of a key, loading it if it is not there or no longer good enough."""
        if key in self._models and good(self._models[key]):
            self._models.move_to_end(key)
            return self._models[key]
        self._models.pop(key, None)
        while len(self._models) >= self._capacity:
            self._models.popitem(last=False)
        self._models[key] = load()
        return self._models[key]

    def forget(self, key: Hashable) -> None:
        """Let a model go, if it is there."""
        self._models.pop(key, None)

    def clear(self) -> None:
        """Let all models go."""
        self._models.clear()


def release_all() -> None:
    """Let the warm models of all metrics go, with the vectors that encoders keep, and give their memory back."""
    for warm in list(_everywhere):
        warm.clear()
    free_memory()
