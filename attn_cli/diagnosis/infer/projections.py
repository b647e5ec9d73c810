"""Projections: which of the built object's tensors are the matrices of q, k, v and the output."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attn_cli.diagnosis.infer.names import PROJECTIONS, plain, word
from attn_cli.diagnosis.infer.source import Source, transposed_attributes
from attn_cli.diagnosis.plan import WeightsSpec
from attn_cli.diagnosis.weights import Tensor
from attn_cli.errors import InputError

_NOT_MATRICES = ("embedding", "norm")


def find_projections(
    tensors: Mapping[str, Tensor], said: Mapping[str, str], source: Source
) -> WeightsSpec | None:
    """Where the projections are, by names and shapes; `said` maps names to q, k, v, qkv, kv, o.

    None where the object has no matrix. Raises InputError where the names do not tell.
    """
    if (mha := _mha(tensors)) is not None and not said:
        return WeightsSpec("mha", {"attr": mha})
    matrices = _matrices(tensors)
    if not matrices:
        return None
    found = _by_name(matrices, said)
    if (listed := _head_modules(found)) is not None:
        return _with_output(listed, found)
    single = {role: paths[0] for role, paths in found.items()}
    if "qkv" in single:
        return _fused(single, matrices, tensors)
    if "kv" in single and "q" in single:
        names = {"q": single["q"], "kv": single["kv"]}
        return _with_output(WeightsSpec("kv_fused", names), found)
    if not said and (four := _list_of_four(matrices)) is not None:
        return WeightsSpec("separate", four)
    if not {"q", "k", "v"} <= set(single):
        raise _ask(matrices, single)
    return _separate(single, matrices, tensors, source)


def _mha(tensors: Mapping[str, Tensor]) -> str | None:
    """The path of the one nn.MultiheadAttention, "self" where it is the object itself."""
    paths = {
        t.name.rpartition(".")[0]
        for t in tensors.values()
        if t.family == "mha" or t.name.rpartition(".")[2] in ("q_proj_weight",)
    }
    if len(paths) == 1:
        return paths.pop() or "self"
    own = "in_proj_weight" in tensors and tensors["in_proj_weight"].owner == "MultiheadAttention"
    return "self" if own else None


def _matrices(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Path → the tensor, for everything learned that could be a projection."""
    found = {}
    for name, tensor in tensors.items():
        rank_fits = len(tensor.shape) in (2, 3) or tensor.family == "conv"
        if tensor.learned and rank_fits and tensor.family not in _NOT_MATRICES:
            found[name.removesuffix(".weight")] = tensor
    return found


def _last(path: str) -> str:
    """The last part of a path that is no number: to_out of to_out.0."""
    named = [part for part in path.split(".") if not part.isdigit()]
    return named[-1] if named else path


def _by_name(matrices: Mapping[str, Tensor], said: Mapping[str, str]) -> dict[str, list[str]]:
    """Role → the paths whose names mean it, best first."""
    found: dict[str, list[str]] = {}
    for name, role in said.items():
        paths = [p for p in matrices if name in (p, _last(p), matrices[p].name)]
        if not paths:
            raise InputError(
                f"--map says {name}, and the code has no such matrix",
                hint=f"it has {', '.join(matrices)}",
            )
        found.setdefault(role, []).extend(paths)
    taken = {path for paths in found.values() for path in paths}
    for path in matrices:
        meaning = word(_last(path), PROJECTIONS)
        if meaning is not None and path not in taken and meaning not in said.values():
            found.setdefault(meaning, []).append(path)
    if "o" in found:  # several words are used for it: the surest one counts
        order = [plain(w) for w in PROJECTIONS["o"]]
        places = {plain(w): i for i, w in reversed(list(enumerate(PROJECTIONS["o"])))}
        found["o"].sort(key=lambda path: places.get(plain(_last(path)), len(order)))
    return found


def _head_modules(found: Mapping[str, list[str]]) -> WeightsSpec | None:
    """A list of heads that each have q, k and v: heads.0.query, heads.1.query, …"""
    if any(len(found.get(role, ())) < 2 for role in "qkv"):
        return None
    names, lists = {}, set()
    for role in "qkv":
        match = re.fullmatch(r"(.+)\.0\.(.+)", found[role][0])
        if match is None:
            return None
        lists.add(match.group(1))
        names[role] = match.group(2)
    return WeightsSpec("head_modules", {"list": lists.pop(), **names}) if len(lists) == 1 else None


def _list_of_four(matrices: Mapping[str, Tensor]) -> dict[str, str] | None:
    """Four layers in one list and no others are q, k, v and o in turn ("The Annotated
    Transformer" has them so)."""
    paths = list(matrices)
    lists = {path.rpartition(".")[0] for path in paths}
    in_turn = [path.rpartition(".")[2] for path in paths] == ["0", "1", "2", "3"]
    if len(lists) != 1 or not in_turn or "" in lists:
        return None
    return dict(zip("qkvo", paths, strict=True))


def _with_output(spec: WeightsSpec, found: Mapping[str, list[str]]) -> WeightsSpec:
    output = {"o": found["o"][0]} if found.get("o") else {}
    return WeightsSpec(spec.type, {**spec.names, **output})


def _fused(
    single: Mapping[str, str], matrices: Mapping[str, Tensor], tensors: Mapping[str, Tensor]
) -> WeightsSpec:
    path = single["qkv"]
    tensor = matrices[path]
    output = {"o": single["o"]} if "o" in single else {}
    if path in tensors:  # a parameter of its own, as in nn.MultiheadAttention
        wide_in = tensor.shape[0] < tensor.shape[1]
        if wide_in:
            return WeightsSpec("fused_conv1d", {"qkv": path, **output})
        bias = path.replace("weight", "bias")
        names = {"w": path, **({"b": bias} if bias in tensors and bias != path else {})}
        return WeightsSpec("in_proj", {**names, **output})
    if tensor.family == "conv":
        return WeightsSpec("conv2d_fused", {"qkv": path, **output})
    linear = tensor.family == "linear" or tensor.shape[0] > tensor.shape[1]
    return WeightsSpec("fused" if linear else "fused_conv1d", {"qkv": path, **output})


def _separate(
    single: Mapping[str, str],
    matrices: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    source: Source,
) -> WeightsSpec:
    names = {role: single[role] for role in ("q", "k", "v", "o") if role in single}
    raw = [matrices[names[role]] for role in "qkv"]
    if any(names[role] not in tensors for role in "qkv"):
        return WeightsSpec("separate", names)
    biases = _biases(tensors, names)
    if len(raw[0].shape) == 3:
        return WeightsSpec("head_tensors", {**names, **biases})
    turned = transposed_attributes(source)
    kind = "linear_attrs" if _last(names["q"]) in turned else "numpy_attrs"
    return WeightsSpec(kind, {**names, **biases})


def _biases(tensors: Mapping[str, Tensor], names: Mapping[str, str]) -> dict[str, str]:
    """The biases of matrices that are plain tensors: b_q, bq, q_bias, bias_q."""
    found = {}
    for role in names:
        wanted = {f"b{role}", f"{role}bias", f"bias{role}", f"{role}b", f"w{role}bias"}
        if role == "o":
            wanted |= {"bout", "outbias", "biasout"}
        for name in tensors:
            if plain(_last(name)) in wanted and name not in names.values():
                found[f"b{role}"] = name
    return found


def _ask(matrices: Mapping[str, Tensor], known: Mapping[str, str]) -> InputError:
    unknown = [path for path in matrices if path not in known.values()]
    missing = [role for role in "qkv" if role not in known]
    wanted = f"which matrix is {', '.join(missing)}? "
    if not unknown:
        return InputError(
            f"{wanted}The code has {', '.join(matrices)}, and no other",
            hint="a matrix that does two things is not known to attn; say --plan",
        )
    roles = ["qkv"] if len(unknown) == 1 and len(missing) == 3 else [*missing, "o"]
    example = ",".join(f"{path}={role}" for path, role in zip(unknown, roles, strict=False))
    return InputError(
        f"{wanted}The names do not tell: {', '.join(unknown[:8])}",
        hint=f'say --map "{example}", whichever is which',
    )
