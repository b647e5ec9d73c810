"""The matrices of somebody's layer: which part of which tensor is which projection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.layer import Projections
from attn_cli.diagnosis.plan import WeightsSpec
from attn_cli.errors import InputError

Array = NDArray[Any]
Form = Literal["out_in", "in_out", "conv", "heads_in", "plain"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of the built object: its dotted name, shape, and what holds it.

    `owner` is the class that holds it, `family` what kind of layer that is (linear, conv,
    embedding, mha, norm or nothing known), `learned` whether it is a parameter.
    """

    name: str
    shape: tuple[int, ...]
    owner: str = ""
    family: str = ""
    learned: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """A region of a tensor that holds a region of one of our matrices.

    `role` is a field of Projections, `theirs` the range of the tensor's output axis, `ours` that of
    our columns; None is all of it. The form says how the tensor is stored: out_in (nn.Linear),
    in_out (Conv1D, arrays), conv (1×1), heads_in (H, in, d), plain (same order as ours).
    """

    role: str
    tensor: str
    form: Form
    theirs: tuple[int, int] | None = None
    ours: tuple[int, int] | None = None

    def view(self, tensor: Array) -> Array:
        """The region, turned to our orientation: (in, out), or with its heads apart."""
        part = slice(None) if self.theirs is None else slice(*self.theirs)
        if self.form == "out_in":
            return tensor[part].T
        if self.form == "in_out":
            return tensor[:, part]
        if self.form == "conv":
            return tensor[part].reshape(-1, tensor.shape[1]).T
        if self.form == "heads_in":
            return tensor.transpose(1, 0, 2)
        return tensor[part]


class Layout:
    """Where each projection lies: `cells` over `tensors`."""

    def __init__(self, cells: Sequence[Cell], tensors: Mapping[str, Tensor]) -> None:
        self.cells = tuple(cells)
        self.shapes = {cell.tensor: tensors[cell.tensor].shape for cell in cells}

    def roles(self) -> dict[str, tuple[int, ...]]:
        """Each projection that is there and its shape: (in, out), or (out,) for a bias."""
        shapes: dict[str, tuple[int, ...]] = {}
        for cell in self.cells:
            view = cell.view(np.broadcast_to(np.zeros(()), self.shapes[cell.tensor]))
            *inner, out = _ours(cell, view.shape)
            before = shapes.get(cell.role, (0,))[-1]
            end = out if cell.ours is None else max(before, cell.ours[1])
            shapes[cell.role] = (*inner, end)
        return shapes

    def write(self, matrices: Mapping[str, Array]) -> dict[str, Array]:
        """The tensors, by name, that hold these matrices."""
        tensors = {name: np.zeros(shape) for name, shape in self.shapes.items()}
        for cell in self.cells:
            view = cell.view(tensors[cell.tensor])
            view[...] = _columns(matrices[cell.role], cell).reshape(view.shape)
        return tensors

    def read(self, tensors: Mapping[str, Array]) -> Projections:
        """The projections that these tensors hold: where two share a region, they are equal."""
        shapes = self.roles()
        matrices = {role: np.zeros(shape) for role, shape in shapes.items()}
        for cell in self.cells:
            ours = _columns(matrices[cell.role], cell)
            ours[...] = cell.view(tensors[cell.tensor]).reshape(ours.shape)
        return Projections(**matrices)


def _columns(matrix: Array, cell: Cell) -> Array:
    return matrix if cell.ours is None else matrix[..., slice(*cell.ours)]


def _ours(cell: Cell, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of our matrix for a view of this shape: the heads side by side."""
    if cell.role.startswith("b_"):
        return (int(np.prod(shape)),)
    if cell.role == "w_o" and len(shape) == 3:  # (H, d, out)
        return (shape[0] * shape[1], shape[2])
    return (shape[0], int(np.prod(shape[1:])))


def layout_of(
    spec: WeightsSpec, tensors: Mapping[str, Tensor], *, heads: int, kv_heads: int
) -> Layout:
    """Where the projections are, by what the plan says; InputError where a name leads nowhere."""
    finder = _Finder(spec, tensors, heads, kv_heads)
    makers = {
        "separate": finder.separate,
        "numpy_attrs": finder.separate,
        "linear_attrs": finder.separate,
        "fused": finder.fused,
        "fused_conv1d": finder.fused,
        "fused_by_head": finder.by_head,
        "conv2d_fused": finder.fused,
        "in_proj": finder.fused,
        "kv_fused": finder.kv_fused,
        "mha": finder.mha,
        "head_modules": finder.head_modules,
        "head_tensors": finder.separate,
    }
    return Layout(list(makers[spec.type]()), tensors)


class _Finder:
    """Looks the tensors of one spec up."""

    def __init__(
        self, spec: WeightsSpec, tensors: Mapping[str, Tensor], heads: int, kv_heads: int
    ) -> None:
        self.type, self.names = spec.type, spec.names
        self.tensors, self.heads, self.kv_heads = tensors, heads, kv_heads

    def separate(self) -> Iterable[Cell]:
        for letter in "qkv":
            yield from self._whole(letter, self.names[letter], self.names.get(f"b{letter}"))
        yield from self._output()

    def fused(self) -> Iterable[Cell]:
        name = self.names.get("qkv") or self.names["w"]
        yield from self._split("qkv", name, self.names.get("b"))
        yield from self._output()

    def by_head(self) -> Iterable[Cell]:
        """q, k and v of the first head, then those of the next."""
        tensor = self._weight(name := self.names["qkv"])
        out = self._out(Cell("w_q", tensor.name, form := self._form(tensor, "qkv")))
        width = self._ends("qkv", out, name)[0] // self.heads
        bias = self.tensors.get(f"{name}.bias")
        for place in range(3 * self.heads):
            head, letter = place // 3, "qkv"[place % 3]
            theirs = (place * width, (place + 1) * width)
            ours = (head * width, (head + 1) * width)
            yield Cell(f"w_{letter}", tensor.name, form, theirs, ours)
            if bias is not None:
                yield Cell(f"b_{letter}", bias.name, "plain", theirs, ours)
        yield from self._output()

    def kv_fused(self) -> Iterable[Cell]:
        yield from self._whole("q", self.names["q"], None)
        yield from self._split("kv", self.names["kv"], None)
        yield from self._output()

    def mha(self) -> Iterable[Cell]:
        path = self.names["attr"]
        prefix = "" if path in ("", "self") else f"{path}."
        if f"{prefix}in_proj_weight" in self.tensors:
            yield from self._split("qkv", f"{prefix}in_proj_weight", f"{prefix}in_proj_bias")
        else:  # kdim or vdim differ from embed_dim
            for letter in "qkv":
                yield from self._whole(letter, f"{prefix}{letter}_proj_weight", None)
            yield from self._biases("qkv", f"{prefix}in_proj_bias", None)
        yield from self._whole("o", f"{prefix}out_proj", None)

    def head_modules(self) -> Iterable[Cell]:
        path = self.names["list"]
        for letter in "qkv":
            end, index = 0, 0
            while self._has(name := f"{path}.{index}.{self.names[letter]}"):
                for cell in self._whole(letter, name, None):
                    width = self._out(cell)
                    yield Cell(cell.role, cell.tensor, cell.form, None, (end, end + width))
                end, index = end + width, index + 1
            if not index:
                raise self._missing(f"{path}.0.{self.names[letter]}")
        yield from self._output()

    def _output(self) -> Iterable[Cell]:
        if (name := self.names.get("o")) is not None:
            yield from self._whole("o", name, self.names.get("bo"))

    def _whole(self, letter: str, name: str, bias: str | None) -> Iterable[Cell]:
        """A matrix that is a tensor's own, and its bias where there is one."""
        tensor = self._weight(name)
        yield Cell(f"w_{letter}", tensor.name, self._form(tensor, letter))
        bias = bias or f"{name}.bias"
        if bias in self.tensors:
            yield Cell(f"b_{letter}", self.tensors[bias].name, "plain")

    def _split(self, letters: str, name: str, bias: str | None) -> Iterable[Cell]:
        """Matrices side by side along the tensor's output axis, in the order of `letters`."""
        tensor = self._weight(name)
        form = self._form(tensor, letters)
        out = self._out(Cell("w_q", tensor.name, form))
        ends = self._ends(letters, out, name)
        for letter, start, end in zip(letters, (0, *ends), ends, strict=False):
            yield Cell(f"w_{letter}", tensor.name, form, (start, end))
        yield from self._biases(letters, bias or f"{name}.bias", ends)

    def _biases(self, letters: str, name: str, ends: Sequence[int] | None) -> Iterable[Cell]:
        if name not in self.tensors:
            return
        ends = ends or self._ends(letters, self.tensors[name].shape[0], name)
        for letter, start, end in zip(letters, (0, *ends), ends, strict=False):
            yield Cell(f"b_{letter}", name, "plain", (start, end))

    def _ends(self, letters: str, out: int, name: str) -> tuple[int, ...]:
        """Where each matrix ends: q has the query heads, k and v the key/value heads."""
        kv_heads = self.heads if self.type == "fused_by_head" else self.kv_heads
        counts = [self.heads if letter == "q" else kv_heads for letter in letters]
        if out % sum(counts):
            raise InputError(
                f"{name} has {out} outputs, which {sum(counts)} heads ({' + '.join(letters)}) "
                "do not share equally",
                hint="say --heads and --kv-heads",
            )
        width = out // sum(counts)
        return tuple(int(end) * width for end in np.cumsum(counts))

    def _out(self, cell: Cell) -> int:
        shape = cell.view(np.broadcast_to(np.zeros(()), self.tensors[cell.tensor].shape)).shape
        return int(_ours(cell, shape)[-1])

    def _has(self, name: str) -> bool:
        return f"{name}.weight" in self.tensors or name in self.tensors

    def _weight(self, name: str) -> Tensor:
        if not self._has(name):
            raise self._missing(name)
        return self.tensors.get(f"{name}.weight") or self.tensors[name]

    def _form(self, tensor: Tensor, letter: str) -> Form:
        rank = len(tensor.shape)
        if rank == 3 and tensor.family != "conv":
            if letter == "o" or tensor.shape[1] == self.heads != tensor.shape[0]:
                return "plain"  # (H, d, out), or (in, H, d)
            return "heads_in"
        if rank > 2:
            return "conv"
        if rank != 2:
            raise InputError(
                f"{tensor.name} has shape {tensor.shape}: expected a matrix", hint="say --map"
            )
        linear = tensor.family in ("linear", "mha") or "linear" in tensor.owner.lower()
        if self.type in ("in_proj", "linear_attrs", "mha"):
            linear = True
        return "out_in" if linear and self.type != "fused_conv1d" else "in_out"

    def _missing(self, name: str) -> InputError:
        known = dict.fromkeys(n.removesuffix(".weight") for n in self.tensors)
        listed = ", ".join(list(known)[:12]) or "none"
        return InputError(f"the code has no matrix {name}", hint=f"its tensors: {listed}")
