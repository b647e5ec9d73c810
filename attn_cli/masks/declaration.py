"""MaskKind: what a mask declares of itself — how it is written, what it means, how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from attn_cli.core.masks import Mask, MaskContext
from attn_cli.errors import InputError, MisfitError
from attn_cli.masks.formula import Formula

LARGEST = 2**31 - 1  # no sequence is longer, and the product of two such numbers fits int64

Bound = int | bool | str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument as it was written; `value` is None unless it is a number or quoted text."""

    source: str
    value: int | float | str | None = None

    def __str__(self) -> str:
        return shorten(self.source)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing that a mask takes.

    `number` and `numbers` are whole; a number with a default is written by name (`seed=0`).
    A `word` is there or not (`both`); a `text` is quoted.
    """

    name: str
    form: Literal["number", "numbers", "word", "text"] = "number"
    least: int = 0
    most: int = LARGEST
    fewest: int = 0  # how many numbers there must be
    default: int | None = None

    def demand(self, argument: Argument) -> str:
        """What it must be and what came instead, as the rest of a sentence."""
        each = "each of " if self.form == "numbers" else ""
        if self.form == "text":
            must = "text in quotes"
        elif isinstance(argument.value, int) and argument.value > self.most:
            must = f"at most {self.most}"
        else:
            must = f"a whole number of at least {self.least}"
        return f"{each}{self.name} is {must}, and {argument} came"

    def accepts(self, argument: Argument) -> bool:
        if self.form == "text":
            return isinstance(argument.value, str) and argument.value != ""
        return isinstance(argument.value, int) and self.least <= argument.value <= self.most

    def write(self, value: Bound) -> list[str]:
        """The bound value as arguments of a mask expression."""
        match self.form:
            case "word":
                return [self.name] if value else []
            case "numbers":
                return [str(number) for number in value] if isinstance(value, tuple) else []
            case "text":
                return [f"'{value}'" if '"' in str(value) else f'"{value}"']
            case "number":
                return [str(value) if self.default is None else f"{self.name}={value}"]


@dataclass(frozen=True, slots=True)
class MaskKind:
    """A mask as the registry knows it.

    `make(context, *values)` gets one value for each parameter, in their order; so do
    `code(writing, *values)`, the mask as PyTorch operations, and `room(*values)`, how many keys it
    takes to see what the mask does.
    `compares_positions`: what it lets through depends on where queries stand relative to keys, so
    it has no meaning until somebody has said how queries and keys of different number line up.
    """

    name: str
    signature: str
    description: str
    make: Callable[..., Mask]
    code: Callable[..., Formula]
    room: Callable[..., int] = lambda *values: 1
    fixed: bool = False  # there must be as many keys as `room` says
    scattered: bool = False  # what a tile of it lets through is only known by evaluating it
    parameters: tuple[Parameter, ...] = ()
    compares_positions: bool = False
    by_distance: bool = False  # what it lets through depends on q - k alone

    def read(
        self, positional: Sequence[Argument], named: Mapping[str, Argument]
    ) -> tuple[Bound, ...]:
        """One value for each parameter; where they do not fit, InputError says what it takes."""
        waiting, by_name = list(positional), dict(named)
        values = tuple(self._take(parameter, waiting, by_name) for parameter in self.parameters)
        left = [str(argument) for argument in waiting]
        left += [f"{shorten(name)}={argument}" for name, argument in by_name.items()]
        if left:
            raise self._refusal(f"{self.name} has no place for {left[0]}")
        return values

    def write(self, values: Sequence[Bound]) -> str:
        """The mask with these values as a mask expression."""
        pairs = zip(self.parameters, values, strict=True)
        arguments = [text for parameter, value in pairs for text in parameter.write(value)]
        return f"{self.name}({', '.join(arguments)})" if arguments else self.name

    def build(self, values: Sequence[Bound], context: MaskContext) -> Mask:
        """The mask for one run; InputError where it needs an alignment that nobody has given."""
        if self.compares_positions and not context.aligned:
            raise _unaligned(shorten(self.write(values)), context)
        return self.make(context, *values)

    def _take(
        self, parameter: Parameter, waiting: list[Argument], by_name: dict[str, Argument]
    ) -> Bound:
        """The value of one parameter; what it uses leaves `waiting` or `by_name`."""
        if parameter.form == "word":
            there = bool(waiting) and waiting[0].source == parameter.name
            del waiting[: int(there)]
            return there
        if parameter.form == "numbers":
            numbers = tuple(self._number(parameter, argument) for argument in waiting)
            waiting.clear()
            if len(numbers) < parameter.fewest:
                raise self._refusal(f"{self.name} needs {parameter.name}")
            return numbers
        if waiting and parameter.default is None:
            return self._single(parameter, waiting.pop(0))
        if parameter.name in by_name:
            return self._single(parameter, by_name.pop(parameter.name))
        if parameter.default is None:
            raise self._refusal(f"{self.name} needs {parameter.name}")
        return parameter.default

    def _single(self, parameter: Parameter, argument: Argument) -> Bound:
        if parameter.form == "number":
            return self._number(parameter, argument)
        if not parameter.accepts(argument):
            raise self._refusal(f"{self.name}: {parameter.demand(argument)}")
        return str(argument.value)

    def _number(self, parameter: Parameter, argument: Argument) -> int:
        if not parameter.accepts(argument) or not isinstance(argument.value, int):
            raise self._refusal(f"{self.name}: {parameter.demand(argument)}")
        return argument.value

    def _refusal(self, message: str) -> InputError:
        return InputError(message, hint=f"{self.signature}: {self.description}")


def shorten(text: str) -> str:
    """At most 40 characters of it, in one line, for messages."""
    line = " ".join(text.split())
    return line if len(line) <= 40 else line[:39] + "…"


def _unaligned(text: str, context: MaskContext) -> InputError:
    return MisfitError(
        f"{text} compares positions, and {context.queries} queries stand against "
        f"{context.keys} keys",
        hint="--align lower-right: the last query is the last key (decoding with a KV cache, "
        "flash-attention); --align upper-left: query 0 is key 0 (PyTorch is_causal)",
    )
