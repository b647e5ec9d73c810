"""Around: the modules that a call's q, k and v come from, and that its context goes through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from attn_cli.core.model_calls import CallPlace
from attn_cli.models.hf.call import AttentionCall

ATTENTION = ("attn", "attention")  # in the name of a module around the one that attends


@dataclass(frozen=True, slots=True)
class ModuleStep:
    """One module that ran: its name below the attention module, and the shapes in and out."""

    name: str
    kind: str
    given: tuple[int, ...]
    made: tuple[int, ...]
    dtype: str

    @property
    def linear(self) -> bool:
        """Whether it is a matrix product, and no norm."""
        return "Norm" not in self.kind


@dataclass(frozen=True, slots=True)
class Ran:
    """A module with parameters of its own as it ran."""

    path: str
    kind: str
    given: tuple[int, ...]
    made: tuple[int, ...]
    dtype: str


@dataclass(slots=True)
class AroundCalls:
    """Observer of calls and of the modules between them, in the order in which they ran."""

    seen: list[Ran | CallPlace] = field(default_factory=list)
    _paths: dict[int, str] = field(default_factory=dict)

    def see(self, call: AttentionCall) -> None:
        self.seen.append(call.facts.place)

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Records the model's modules that have parameters of their own, while it runs."""
        self._paths = {
            id(module): path
            for path, module in model.named_modules()
            if next(module.parameters(recurse=False), None) is not None
        }
        handle = register_module_forward_hook(self._ran)
        try:
            yield
        finally:
            handle.remove()

    def before(self, place: CallPlace) -> tuple[ModuleStep, ...]:
        """What ran within the attention module until it attended."""
        root = _block(place.path)
        found: list[ModuleStep] = []
        for ran in reversed(self.seen[: self.seen.index(place)]):
            if not isinstance(ran, Ran) or not _inside(ran.path, root):
                break
            found.append(_step(ran, root))
        return tuple(reversed(found))

    def after(self, place: CallPlace) -> tuple[ModuleStep, ...]:
        """What its context went through: the output projection."""
        root = _block(place.path)
        found: list[ModuleStep] = []
        for ran in self.seen[self.seen.index(place) + 1 :]:
            if not isinstance(ran, Ran) or not _inside(ran.path, root):
                break
            if (step := _step(ran, root)).linear:
                found.append(step)
        return tuple(found)

    def _ran(self, module: nn.Module, given: Any, made: Any) -> None:
        path = self._paths.get(id(module))
        first = _first(given)
        if path is not None and first is not None and isinstance(made, Tensor):
            dtype = str(made.dtype).removeprefix("torch.")
            kind, shapes = type(module).__name__, (tuple(first.shape), tuple(made.shape))
            self.seen.append(Ran(path, kind, *shapes, dtype))


def _block(path: str) -> str:
    """The attention block: `…attention` around `…attention.self`, else the module itself."""
    above, _, name = path.rpartition(".")
    outer = above.rpartition(".")[2].lower()
    nested = any(word in outer for word in ATTENTION) and not name.isdigit()
    return above if nested else path


def _inside(path: str, root: str) -> bool:
    return path.startswith(f"{root}.")


def _step(ran: Ran, root: str) -> ModuleStep:
    name = ran.path.removeprefix(f"{root}.").removeprefix("self.")
    return ModuleStep(name, ran.kind, ran.given, ran.made, ran.dtype)


def _first(given: Any) -> Tensor | None:
    parts: Sequence[Any] = given if isinstance(given, tuple) else (given,)
    return next((part for part in parts if isinstance(part, Tensor)), None)
