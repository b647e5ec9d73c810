"""Coverage: which layers are softmax attention and were seen, and what the others are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from torch import nn

from attn_cli.core.model_calls import CallFacts, CallPlace, LayerCoverage, ModelCoverage
from attn_cli.models.hf.facts import in_stack

UNREAD = "attention in chunks or bands, which attn does not read"
# What mixes tokens without softmax, by what its class is called.
_MIXERS = {
    r"GatedDeltaNet|GatedDelta": "gated delta-net",
    r"KimiDelta|DeltaAttention|KDA": "delta attention",
    r"Mamba2|BambaMixer|Mamba2Mixer|GraniteMoeHybridMambaLayer|FalconH1Mixer|NemotronHMamba": (
        "mamba-2"
    ),
    r"Mamba|SSM": "mamba",
    r"ShortConv": "short convolution",
    r"RecurrentBlock|Rglru|RecurrentGemmaRecurrent": "recurrent",
    r"LightningAttention": "lightning attention",
    r"LinearAttention": "linear attention",
    r"Rwkv": "RWKV",
    r"FNet|FourierTransform": "Fourier transform",
    r"mLSTM|sLSTM|xLSTM": "xLSTM",
    r"Retention": "retention",
    r"LSHSelfAttention|LocalSelfAttention": UNREAD,
}


def coverage_of(
    model: nn.Module,
    calls: Sequence[CallFacts],
    *,
    others: tuple[str, ...],
    unread: tuple[str, ...],
) -> ModelCoverage:
    """The layers in order of their stacks, the calls, and a sentence on both.

    `others` and `unread` are the paths of modules whose softmax is no attention, and of those
    whose attention has other axes.
    """
    layers = [*_seen(calls, model), *_unseen(calls, unread, model)]
    order = {stack: number for number, stack in enumerate(dict.fromkeys(x.stack for x in layers))}
    layers.sort(key=lambda each: (order[each.stack], each.layer))
    return ModelCoverage(
        layers=tuple(layers),
        calls=tuple(calls),
        elsewhere=others,
        unread=unread,
        sentence=_sentence(layers, calls),
        precision=_precision(calls),
    )


def _seen(calls: Sequence[CallFacts], model: nn.Module) -> Iterator[LayerCoverage]:
    """One layer for all calls of it, with a mixer beside them where there is one."""
    places: dict[tuple[str, int], list[CallPlace]] = {}
    for facts in calls:
        places.setdefault((facts.stack, facts.layer), []).append(facts.place)
    for (stack, number), those in places.items():
        path = _layer_path(those[0].path)
        beside = _mixer(model.get_submodule(path)) if path else ""
        says = f"softmax attention beside {beside}" if beside else "softmax attention"
        yield LayerCoverage(
            path=path or those[0].path, stack=stack, layer=number, places=tuple(those), says=says
        )


def _unseen(
    calls: Sequence[CallFacts], unread: tuple[str, ...], model: nn.Module
) -> Iterator[LayerCoverage]:
    """Layers of a list in which no call was seen: those that mix tokens in another way."""
    skipped = {_layer_path(path) for path in unread}
    seen = {_layer_path(facts.place.path) for facts in calls}
    lists = {path.rpartition(".")[0] for path in seen if path}
    for path, module in model.named_modules():  # outer ones first
        if not isinstance(module, nn.ModuleList) or _within(path, lists):
            continue
        found: set[str] = set()
        for number, layer in enumerate(module):
            where = f"{path}.{number}"
            mixer = UNREAD if where in skipped else _mixer(layer)
            if where in seen or not (mixer or path in lists):
                continue
            found.add(path)
            says = mixer or "no attention"
            stack = in_stack(where)[0]
            yield LayerCoverage(path=where, stack=stack, layer=number, places=(), says=says)
        lists |= found


def _within(path: str, lists: set[str]) -> bool:
    """Whether a list is part of a layer of another one."""
    return any(path.startswith(f"{each}.") for each in lists)


def _layer_path(path: str) -> str:
    """The path of the layer that a module is in: "model.layers.3"."""
    stack, name, number = in_stack(path)
    return f"{stack}.{name}.{number}".strip(".") if name else ""


def _mixer(layer: nn.Module) -> str:
    """What mixes tokens in a layer besides softmax attention, in words; empty: nothing."""
    for module in layer.modules():
        for pattern, words in _MIXERS.items():
            if re.search(pattern, type(module).__name__) and _is_mixer(module):
                return words
    return ""


def _is_mixer(module: nn.Module) -> bool:
    """Not a norm or a whole layer that carries the name of its model."""
    name = type(module).__name__
    return not re.search(r"Norm|DecoderLayer|Block$|Model|MLP|Expert|Rotary|SoftmaxAtt", name) or (
        name.endswith("RecurrentBlock")
    )


def _sentence(layers: Sequence[LayerCoverage], calls: Sequence[CallFacts]) -> str:
    """ "24 of 32 layers are softmax attention; 8 are gated delta-net and have no weights"."""
    count, total = sum(layer.softmax for layer in layers), len(layers)
    if not total:
        return "no layer of attention was seen"
    parts = [f"{count:,} of {total:,} layers {_are(count)} softmax attention"]
    if count == total:
        parts = [
            f"all {total:,} layers are softmax attention"
            if total > 1
            else "its one layer is softmax attention"
        ]
    others = Counter(layer.says for layer in layers if not layer.softmax)
    parts += [_without(says, number) for says, number in others.items()]
    beside = Counter(layer.says for layer in layers if layer.softmax and "beside" in layer.says)
    parts += [f"{n:,} of them beside {s.partition('beside ')[2]}" for s, n in beside.items()]
    return "; ".join([*parts, *_ways(calls)])


def _without(says: str, count: int) -> str:
    """ "8 are gated delta-net and have no weights"."""
    have = "" if says == UNREAD else f" and {_have(count)} no weights"
    return f"{count:,} {_are(count)} {says}{have}"


def _ways(calls: Sequence[CallFacts]) -> Iterator[str]:
    """Where the calls were seen."""
    words = {
        "interface": "at the attention interface, computed by {}",
        "sdpa": "at scaled_dot_product_attention",
        "softmax": "at the softmax: scores and weights, no q, k, v",
    }
    ways = Counter((facts.how, facts.backend) for facts in calls)
    for (how, backend), count in ways.items():
        calls_are = "1 call was" if count == 1 else f"{count:,} calls were"
        yield f"{calls_are} seen {words[how].format(backend)}"


def _precision(calls: Sequence[CallFacts]) -> str:
    """In which precision the softmax of this model runs."""
    kinds = dict.fromkeys(facts.softmax_dtype for facts in calls)
    said = [
        "inside PyTorch's kernel, which keeps its sums in float32 or wider"
        if kind == "kernel"
        else f"in {kind}"
        for kind in kinds
    ]
    return f"softmax {' and '.join(said)}" if said else ""


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"
