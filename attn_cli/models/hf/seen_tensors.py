"""SeenTensors: what was found out of a tensor, for as long as it lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import ReferenceType, ref

from torch import Tensor

T = TypeVar("T")


@dataclass(slots=True)
class SeenTensors(Generic[T]):
    """By identity, and without holding: a model whose layers lie on several devices, or that makes
    a mask a layer, would keep them all otherwise.
    """

    _found: dict[int, tuple[ReferenceType[Tensor], T]] = field(default_factory=dict)

    def of(self, tensor: Tensor, look: Callable[[Tensor], T]) -> T:
        """What `look` says of the tensor, asked once while it lives."""
        held = self._found.get(id(tensor))
        if held is not None and held[0]() is tensor:  # another may have taken its id
            return held[1]
        said, key = look(tensor), id(tensor)
        self._found[key] = (ref(tensor, lambda _: self._found.pop(key, None)), said)
        return said
