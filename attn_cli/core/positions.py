"""The protocols of positions that act inside the core: turning q and k, and biasing the scores."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from numpy.typing import NDArray

Array = NDArray[Any]


class Rotation(Protocol):
    """Turns pairs of features of q and k by angles that grow with their positions."""

    @property
    def pairing(self) -> Literal["half", "interleaved"]: ...

    @property
    def base(self) -> float: ...

    def check_width(self, d_k: int) -> None:
        """Raises InputError for a width that it cannot turn."""
        ...

    def rotate(self, array: Array, positions: Array) -> Array:
        """q or k (..., n, d_k) turned by the angles of its n positions."""
        ...


class ScoreBias(Protocol):
    """A number added to each scaled score, as a function of absolute positions, like a mask."""

    @property
    def name(self) -> str: ...

    def __call__(self, b: Array, h: Array, q_pos: Array, k_pos: Array) -> Array:
        """The bias at broadcast integer index arrays; broadcasts to their shape."""
        ...
