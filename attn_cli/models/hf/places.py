"""Places: which module runs now, by path, while a model's forward goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from attn_cli.core.model_calls import CallPlace


@dataclass(slots=True)
class Running:
    """One module that has been entered and not left: its path, turn, and calls so far."""

    module: nn.Module
    path: str
    turn: int
    pieces: int = 0


@dataclass(slots=True)
class Tracker:
    """The modules of one model that are running, outermost first.

    `paths` maps id(module) to the module's path: the first of its paths where it has several.
    """

    paths: dict[int, str]
    stack: list[Running] = field(default_factory=list)
    turns: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, model: nn.Module) -> Tracker:
        return cls({id(module): path for path, module in model.named_modules()})

    def knows(self, module: nn.Module) -> bool:
        """Whether the module belongs to the model."""
        return id(module) in self.paths

    def place(self, module: nn.Module) -> CallPlace:
        """The place of a call that `module` makes now, counted."""
        for running in reversed(self.stack):
            if running.module is module:
                place = CallPlace(running.path, running.turn, running.pieces)
                running.pieces += 1
                return place
        path = self.paths[
            id(module)
        ]  # called without its own forward, as some do to parts of theirs
        self.turns[path] += 1
        return CallPlace(path, self.turns[path] - 1)

    def innermost(self) -> nn.Module | None:
        """The innermost module that runs and is not one of torch's own."""
        for running in reversed(self.stack):
            if not type(running.module).__module__.startswith("torch.nn."):
                return running.module
        return None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follows the model's modules; the hooks are gone afterwards, whatever happens."""
        entered = register_module_forward_pre_hook(self._enter)
        left = register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            entered.remove()
            left.remove()
            self.stack.clear()

    def _enter(self, module: nn.Module, _: Any) -> None:
        path = self.paths.get(id(module))
        if path is not None:
            self.stack.append(Running(module, path, self.turns[path]))
            self.turns[path] += 1

    def _leave(self, module: nn.Module, _: Any, __: Any) -> None:
        if self.stack and self.stack[-1].module is module:
            self.stack.pop()
