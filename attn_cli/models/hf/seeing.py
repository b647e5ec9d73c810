"""Seeing: turns what the hooks catch during one forward into AttentionCalls for the observers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn_cli.core.model_calls import CallFacts, How
from attn_cli.errors import UndecidedError
from attn_cli.models.hf.arguments import GIVEN, Arguments, read_arguments
from attn_cli.models.hf.blocks import stages_of
from attn_cli.models.hf.call import FILL, AttentionCall, Edit, Observer, four_axes
from attn_cli.models.hf.facts import Layers, is_cross, layer_type
from attn_cli.models.hf.function_mode import Watching
from attn_cli.models.hf.given_masks import GivenMask, GivenMasks
from attn_cli.models.hf.options import BACKENDS
from attn_cli.models.hf.places import Tracker
from attn_cli.models.hf.registering import eager_function, own_functions, registered
from attn_cli.models.hf.trust import explained


class Seeing:
    """One forward's worth of calls: their facts in order, and what has been told to observers."""

    def __init__(self, model: nn.Module, observers: Sequence[Observer], edit: Edit | None) -> None:
        self.model = model
        self.observers, self.edit = observers, edit
        self.tracker = Tracker.of(model)
        self.layers, self.masks = Layers(), GivenMasks()
        self.calls: list[CallFacts] = []
        self.others: dict[str, None] = {}  # paths in order
        self.skipped: dict[str, None] = {}
        self.inside = False
        self.softmax_dtype = ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Everything is in place, and gone afterwards: tables, hooks and the function mode."""
        sdpa, sdpa_mask = own_functions("sdpa")
        assert sdpa is not None  # transformers has always one
        _, eager_mask = own_functions("eager")
        attend = {name: partial(self._interface, name, sdpa) for name in BACKENDS}
        with (
            registered("sdpa", attend["sdpa"], sdpa_mask),
            registered("eager", attend["eager"], eager_mask),
            self.tracker.watching(),
            Watching(self.tracker, self),
        ):
            yield

    # What the attention interface calls

    def _interface(
        self,
        backend: str,
        sdpa: Callable[..., Any],
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """The model's own function computes; then the observers see what it was given."""
        own = sdpa if backend == "sdpa" else eager_function(type(module))
        given = _by_name(own, args) | kwargs
        run = partial(own, module, query, key, value, attention_mask, *args, **kwargs)
        if not self.tracker.knows(module):
            return run()  # type: ignore[no-any-return]
        read = read_arguments(module, query, attention_mask, given, function=own, backend=backend)
        self.inside, self.softmax_dtype = True, ""
        try:
            output, weights = run()
            call = self._call(
                module,
                "interface",
                backend,
                (query, key, value),
                attention_mask,
                output.transpose(1, 2),
                read,
            )
            self._tell(call)
            if self.edit is not None:
                output = self._edited(call).transpose(1, 2).to(output.dtype).contiguous()
            return output, weights
        finally:
            self.inside = False

    def _call(
        self,
        module: nn.Module,
        how: How,
        backend: str,
        qkv: tuple[Tensor, Tensor, Tensor],
        mask: Tensor | None,
        context: Tensor,
        read: Arguments,
    ) -> AttentionCall:
        """A call whose q, k and v were seen, with a bias that came in its mask beside its own."""
        q, k, v = qkv
        given = None if mask is None else self.masks.of(mask)
        read = replace(read, position_bias=_added(read.position_bias, given))
        facts = self._facts(module, how, backend, q.shape, k.shape, v.shape[-1], given, read=read)
        return AttentionCall(
            facts=facts,
            module=module,
            q=q,
            k=k,
            v=v,
            mask=None if given is None else given.mask,
            below=FILL if given is None else given.below,
            scaling=read.scaling,
            sinks=None if read.sinks is None else four_axes(read.sinks),
            position_bias=None if read.position_bias is None else four_axes(read.position_bias),
            context=context,
        )

    # What the function mode sees

    def kernel(self, module: nn.Module, call: dict[str, Any], context: Tensor) -> Tensor:
        """A scaled_dot_product_attention of the model's own."""
        qkv = call["query"], call["key"], call["value"]
        scale = call.get("scale")
        read = Arguments(
            scaling=call["query"].shape[-1] ** -0.5 if scale is None else float(scale),
            softcap=None,
            sinks=None,
            position_bias=None,
            causal=bool(call.get("is_causal")),
            window=None,
            along=(),
        )
        self.inside, self.softmax_dtype = True, "kernel"
        try:
            mask = call.get("attn_mask")
            seen = self._call(module, "sdpa", "sdpa", qkv, mask, context, read)
            self._tell(seen)
            return context if self.edit is None else self._edited(seen).to(context.dtype)
        finally:
            self.inside = False

    def softmax(self, module: nn.Module, masked: Tensor, weights: Tensor) -> Tensor:
        """A softmax of the model's own attention: masked scores in, weights out."""
        self.inside = True
        self.softmax_dtype = _name(weights.dtype)
        try:
            facts = self._facts(
                module, "softmax", "own", masked.shape, masked.shape[2:], None, None, read=None
            )
            call = AttentionCall(facts=facts, module=module, masked=masked, weights=weights)
            self._tell(call)
            return weights if self.edit is None else self.edit(call, weights).to(weights.dtype)
        finally:
            self.inside = False

    def precision(self, dtype: torch.dtype | None) -> None:
        """The softmax of the call that runs; None inside PyTorch's kernel."""
        self.softmax_dtype = "kernel" if dtype is None else _name(dtype)

    def elsewhere(self, module: nn.Module | None) -> None:
        """A softmax that is taken for no attention."""
        path = "" if module is None else self.tracker.paths[id(module)]
        self.others[path or "(the model itself)"] = None

    def unread(self, module: nn.Module) -> None:
        """A softmax of attention in chunks or bands, whose axes are not (B, H, L, S)."""
        self.skipped[self.tracker.paths[id(module)]] = None

    # Both

    def _facts(
        self,
        module: nn.Module,
        how: How,
        backend: str,
        q: Sequence[int],
        k: Sequence[int],
        d_v: int | None,
        mask: GivenMask | None,
        *,
        read: Arguments | None,
    ) -> CallFacts:
        place = self.tracker.place(module)
        stack, layer = self.layers.of(place)
        keys, cross = k[-1] if read is None else k[-2], is_cross(module, place.path)
        facts = CallFacts(
            place=place,
            order=len(self.calls),
            stack=stack,
            layer=layer,
            how=how,
            backend=backend,
            module_class=type(module).__name__,
            layer_type=layer_type(module),
            cross=cross,
            batch=q[0],
            heads=q[1],
            kv_heads=None if read is None else k[1],
            queries=q[2],
            keys=keys,
            d_k=None if read is None else q[3],
            d_v=d_v,
            q_offset=None if cross or keys < q[2] else keys - q[2],
            causal=read is not None and read.causal,
            mask=None if mask is None else mask.facts,
            window=None if read is None else read.window,
            scaling=None if read is None else read.scaling,
            softcap=None if read is None else read.softcap,
            sinks=read is not None and read.sinks is not None,
            position_bias=read is not None and read.position_bias is not None,
            softmax_dtype=self.softmax_dtype or "unknown",
            kwargs=() if read is None else read.along,
        )
        self.calls.append(facts)
        return facts

    def _tell(self, call: AttentionCall) -> None:
        if call.q is not None and not explained(call):
            raise UndecidedError(
                f"{call.facts.place} computes something else than softmax(q·kᵀ)·v of what it is "
                "given, so what attn would say of its weights could not be relied on",
            )
        for observer in self.observers:
            observer.see(call)

    def _edited(self, call: AttentionCall) -> Tensor:
        """weights · v with the weights that the edit gives, (B, H, L, d_v)."""
        assert self.edit is not None
        assert call.v is not None
        weights = self.edit(
            call, stages_of(call, slice(0, call.facts.queries), wanted=("weights",))["weights"]
        )
        return weights @ call.v.to(weights.dtype).repeat_interleave(call.group, 1)


def _added(bias: Tensor | None, given: GivenMask | None) -> Tensor | None:
    """The bias of a call and that in its mask; None where nothing is added to any score."""
    if bias is not None and not bool(bias.any()):
        bias = None  # T5 gives its cross-attention one of zeros
    in_mask = None if given is None else given.bias
    if bias is None or in_mask is None:
        return in_mask if bias is None else bias
    return bias + in_mask


def _by_name(function: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, Any]:
    """Arguments behind the mask that came by position, by their names."""
    names = list(inspect.signature(function).parameters)[len(GIVEN) :] if args else []
    return dict(zip(names, args, strict=False))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
