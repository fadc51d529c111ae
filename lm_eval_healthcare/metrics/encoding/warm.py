"""A few loaded models, kept while they are in use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Model = TypeVar("Model")


class Warm(Generic[Model]):
    """The models used last; loading one more than there is room for lets the oldest go."""

    def __init__(self, capacity: int = 2) -> None:
        """Start empty."""
        self._capacity = capacity
        self._models: OrderedDict[Hashable, Model] = OrderedDict()

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

    def clear(self) -> None:
        """Let all models go."""
        self._models.clear()
