"""Model: embedding, attention layers and unembedding out of one file, every shape checked.

The format: a .safetensors file whose metadata holds `config` and `vocabulary` as JSON, and

    embedding.weight     (vocabulary, d_model)
    positions.weight     (positions, d_model)      where config says positions learned
    relative.weight      (buckets, heads)          where config says positions relative
    layers.N.w_q         (d_model, heads · d_k)    q = x · w_q; w_k and w_v with kv_heads; b_q, …
    layers.N.w_o         (heads · d_v, d_model)    output = merged · w_o; b_o
    layers.N.norm.weight (d_model,)                and .bias, where config says norm pre or post
    final_norm.weight    (d_model,)                and .bias: LayerNorm before the unembedding
    unembedding.weight   (vocabulary, d_model)     logits = x · unembeddingᵀ; unembedding.bias

Matrices are (in, out), as on paper; embedding and unembedding have one row a token. Biases, norms'
weights, final_norm and the unembedding may be missing. Nothing else may be there.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.dump import Dump
from attn_cli.core.layer import Projections
from attn_cli.errors import InputError, MisfitError
from attn_cli.formats.names import listed, quoted
from attn_cli.formats.source import naming
from attn_cli.models import EMBEDDING
from attn_cli.models.config import ModelConfig, parse_config
from attn_cli.models.vocabulary import Vocabulary, parse_vocabulary
from attn_cli.positions import POSITIONS
from attn_cli.positions.declaration import Scheme

Array = NDArray[Any]
Shape = tuple[int | str, ...]  # a word stands for any size

UNEMBEDDING = "unembedding.weight"


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """What follows a LayerNorm: times `weight`, plus `bias`, (d_model,) each; None for 1 and 0."""

    weight: Array | None = None
    bias: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Unembedding:
    """logits = x · weightᵀ + bias; weight (vocabulary, d_model), bias (vocabulary,) or None."""

    weight: Array
    bias: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One attention layer: its projections, and its LayerNorm where the config has one."""

    projections: Projections
    norm: Affine


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model out of a file; arrays are as wide as they were read, bfloat16 and less as float32."""

    config: ModelConfig
    vocabulary: Vocabulary
    embedding: Array  # (vocabulary, d_model)
    layers: tuple[Layer, ...]
    tables: Mapping[str, Array]  # what position schemes ask for, by the name in their declaration
    final_norm: Affine | None
    unembedding: Unembedding | None

    @property
    def scheme(self) -> Scheme:
        """How the model knows positions."""
        return scheme_of(self.config)


def scheme_of(config: ModelConfig) -> Scheme:
    """The position scheme that a config names."""
    return POSITIONS[config.positions.partition(":")[0]]


def model_from(dump: Dump) -> Model:
    """The model that a dump holds.

    InputError, naming the file, for what is missing, not known, of another shape than the config
    says, or not real numbers.
    """
    with naming(dump.source):
        for name in ("config", "vocabulary"):
            if name not in dump.strings:
                raise InputError(f"a model, and its metadata has no {name}")
        config = parse_config(dump.strings["config"])
        vocabulary = parse_vocabulary(dump.strings["vocabulary"])
        _check_counts(dump.arrays, config, vocabulary)
        parts = _Parts(dump.arrays, dict(_shapes(config, len(vocabulary))))
        parts.check_names(config)
        return _assembled(parts, config, vocabulary)


def _assembled(parts: _Parts, config: ModelConfig, vocabulary: Vocabulary) -> Model:
    table = scheme_of(config).table
    final, unembedding = "final_norm.weight", UNEMBEDDING
    return Model(
        config=config,
        vocabulary=vocabulary,
        embedding=parts.need(EMBEDDING),
        layers=tuple(_layer(parts, f"layers.{number}.") for number in range(config.layers)),
        tables={} if table is None else {table: parts.need(f"{table}.weight")},
        final_norm=_affine(parts, "final_norm.") if final in parts.arrays else None,
        unembedding=Unembedding(parts.need(unembedding), parts.find("unembedding.bias"))
        if unembedding in parts.arrays
        else None,
    )


def _layer(parts: _Parts, prefix: str) -> Layer:
    projections = Projections(
        w_q=parts.need(f"{prefix}w_q"),
        w_k=parts.need(f"{prefix}w_k"),
        w_v=parts.need(f"{prefix}w_v"),
        w_o=parts.need(f"{prefix}w_o"),
        b_q=parts.find(f"{prefix}b_q"),
        b_k=parts.find(f"{prefix}b_k"),
        b_v=parts.find(f"{prefix}b_v"),
        b_o=parts.find(f"{prefix}b_o"),
    )
    return Layer(projections, _affine(parts, f"{prefix}norm."))


def _affine(parts: _Parts, prefix: str) -> Affine:
    return Affine(parts.find(f"{prefix}weight"), parts.find(f"{prefix}bias"))


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """The arrays of a file, and the shape of every one that the config allows."""

    arrays: Mapping[str, Array]
    shapes: Mapping[str, Shape]

    def check_names(self, config: ModelConfig) -> None:
        """InputError for an array that is no part of such a model: left out, it would be missed."""
        if unknown := [name for name in self.arrays if name not in self.shapes]:
            free = [name for name in self.shapes if name not in self.arrays]
            near = difflib.get_close_matches(unknown[0][:80], free, n=1, cutoff=0.8)
            meant = f"did you mean {near[0]!r}? " if near else ""
            raise MisfitError(
                f"holds {listed(unknown)}, no part of a model of {config.layers} attention layers "
                f"with norm {config.norm} and positions {config.positions}",
                hint=f"{meant}a layer has w_q, w_k, w_v, w_o, biases b_q, …, and its norm",
            )

    def need(self, name: str) -> Array:
        """The array called `name`, its shape checked; InputError where there is none."""
        found = self.find(name)
        if found is None:
            shape = " × ".join(map(str, self.shapes[name]))
            raise MisfitError(f"has no {name!r}: expected an array of {shape}")
        return found

    def find(self, name: str) -> Array | None:
        """The same, or None."""
        array = self.arrays.get(name)
        if array is None:
            return None
        expected = self.shapes[name]
        fits = len(array.shape) == len(expected) and all(
            isinstance(wanted, str) or wanted == size
            for wanted, size in zip(expected, array.shape, strict=True)
        )
        if not fits or not array.size:
            shape = ", ".join(map(str, expected))
            raise MisfitError(
                f"{name!r} has shape {array.shape}: expected "
                f"({shape}{',' if len(expected) == 1 else ''}) from the model's config"
            )
        if array.dtype.kind not in "fiu":
            raise InputError(f"{name!r} has dtype {array.dtype}: expected real numbers")
        return array if array.dtype.kind == "f" else array.astype(np.float64)


def _shapes(config: ModelConfig, vocabulary: int) -> Iterator[tuple[str, Shape]]:
    """Every array that a model of this config may have."""
    width = config.d_model
    yield EMBEDDING, (vocabulary, width)
    if scheme_of(config).table == "positions":
        yield "positions.weight", ("positions", width)
    if scheme_of(config).table == "relative":
        yield "relative.weight", ("buckets", config.heads)
    for number in range(config.layers):
        for name, shape in _layer_shapes(config):
            yield f"layers.{number}.{name}", shape
    for name in ("final_norm.weight", "final_norm.bias"):
        yield name, (width,)
    yield UNEMBEDDING, (vocabulary, width)
    yield "unembedding.bias", (vocabulary,)


def _layer_shapes(config: ModelConfig) -> Iterator[tuple[str, Shape]]:
    width, q = config.d_model, config.heads * config.d_k
    k, v = config.kv_heads * config.d_k, config.kv_heads * config.d_v
    for letter, out in (("q", q), ("k", k), ("v", v)):
        yield f"w_{letter}", (width, out)
        yield f"b_{letter}", (out,)
    yield "w_o", (config.heads * config.d_v, width)
    yield "b_o", (width,)
    if config.norm != "none":
        yield "norm.weight", (width,)
        yield "norm.bias", (width,)


def _check_counts(arrays: Mapping[str, Array], config: ModelConfig, vocabulary: Vocabulary) -> None:
    """A clearer word than a wrong shape or a missing name where a number of things is wrong."""
    if config.layers > len(arrays):
        raise MisfitError(
            f"the model's config says {config.layers:,} layers, and the file holds {len(arrays)} "
            "arrays"
        )
    embedding = arrays.get(EMBEDDING)
    if embedding is not None and embedding.ndim == 2 and len(embedding) != len(vocabulary):
        raise MisfitError(
            f"{quoted(EMBEDDING)} has {len(embedding)} rows and the vocabulary "
            f"{len(vocabulary)} tokens: every token needs its row"
        )
