"""Roles: which array of a dump is what, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from numpy.typing import NDArray

from attn_cli.core.dump import Dump
from attn_cli.core.findings import Finding, note
from attn_cli.core.names import (
    CORE_WORDS,
    INPUT_WORDS,
    STAGE_WORDS,
    looks_like_parameter,
    meaning,
    recognise,
)
from attn_cli.errors import InputError
from attn_cli.recognize.kinds import BESIDE, refuse_other_kinds, stray_settings
from attn_cli.recognize.listing import fit_to_print, listing, some
from attn_cli.recognize.parameters import Parameters, find_parameters
from attn_cli.recognize.tables import table_names
from attn_cli.recognize.texts import find_tokens, token_arrays, unknown_texts

Array = NDArray[Any]
_WANTED = "x or vectors for token vectors, or q, k and v"
_STAGES_ONLY = frozenset(STAGE_WORDS) - {"x", "q", "k", "v"}


@dataclass(frozen=True, slots=True)
class Roles:
    """attn's word → the file's name; `kind` says which of them the computation starts from.

    `layer` are the projections beside token vectors. `findings` say which names are not attn's
    own, and which arrays are left aside.
    """

    dump: Dump
    kind: Literal["token vectors", "q, k, v"]
    names: Mapping[str, str]
    findings: tuple[Finding, ...] = ()
    layer: Parameters | None = None

    def __contains__(self, role: str) -> bool:
        return role in self.names

    def array(self, role: str) -> Array:
        return self.dump.arrays[self.names[role]]

    def dtype(self, role: str) -> str:
        """The precision in the file."""
        return self.dump.dtypes[self.names[role]]

    def label(self, role: str) -> str:
        """How a message names the array."""
        return "the array" if self.dump.unnamed else fit_to_print(self.names[role])

    def text(self, role: str) -> Any:
        """The tokens, one list or one a batch item, or None; numbers serve as well as words."""
        return find_tokens(self.dump, role, self.names.values())


def find_roles(dump: Dump, *, remade: bool = False) -> Roles:
    """The roles of a dump's arrays.

    q, k and v beside token vectors and their projections are stages of a computation, not what it
    starts from; so they are where `remade` says that something else makes them anew. Raises
    InputError where the file holds neither token vectors nor q, k and v, where it holds only some
    of them, where two arrays claim one role, and where it holds a model's weights instead.
    """
    known = recognise(_candidates(dump), INPUT_WORDS)
    refuse_other_kinds(dump, BESIDE)
    parts = [role for role in ("q", "k", "v") if role in known]
    layer = find_parameters(dump) if "x" in known else None
    if "x" in known and (layer is not None or (remade and parts)):
        return _remade(dump, known, parts, layer)
    if parts:
        _check_complete(parts, dump)
        # Beside q, k and v a second sequence only tells whose the keys are; `context` is the stage.
        names = {
            role: name
            for role, name in known.items()
            if role != "context" or meaning(name) != "context"
        }
        return Roles(dump, "q, k, v", names, (*_said(names), *_ignored(dump, names)))
    tables = table_names(dump, "positions", "relative")
    parameters = [name for name in dump.arrays if looks_like_parameter(name) and name not in tables]
    if parameters:
        raise _weights_error(parameters, dump, beside_x="x" in known)
    if "x" in known:
        return Roles(dump, "token vectors", known, (*_said(known), *_ignored(dump, known)))
    return _one_array(dump, known)


def _candidates(dump: Dump) -> list[str]:
    """The arrays that may be an input: beside q, a `context` of four axes is the stage."""
    stages = {
        name
        for name, array in dump.arrays.items()
        if array.ndim == 4 and meaning(name) == "context"
    }
    has_q = any(meaning(name) == "q" for name in dump.arrays)
    return [name for name in dump.arrays if not (has_q and name in stages)]


def _remade(
    dump: Dump, known: Mapping[str, str], parts: Sequence[str], layer: Parameters | None
) -> Roles:
    """Token vectors, from which q, k and v are made anew where they stand there, too."""
    names = {role: name for role, name in known.items() if role not in parts}
    stages = [known[role] for role in parts]
    again = f"{some(stages)}: stages that are computed again from {fit_to_print(known['x'])}"
    said = (note("stages", again),) if stages else ()
    used = [*stages, *(() if layer is None else (*layer.names, *layer.beside))]
    findings = (*_said(names), *said, *_ignored(dump, names, used))
    return Roles(dump, "token vectors", names, findings, layer)


def find_context(dump: Dump) -> Roles:
    """The roles of a file that holds the second sequence: its vectors, tokens and lengths.

    Raises InputError, naming the file, for what `find_roles` refuses and for a file with more.
    """
    try:
        roles = find_roles(dump)
    except InputError as error:
        raise InputError(f"context {dump.source}: {error.message}", hint=error.hint) from error
    if roles.kind != "token vectors":
        raise InputError(f"context {dump.source} holds q, k and v: expected token vectors")
    more = [roles.names[role] for role in roles.names if role not in ("x", "lengths")]
    more += [] if roles.layer is None else roles.layer.names
    more += table_names(dump, "positions", "relative")
    if more:
        raise InputError(
            f"context {dump.source} holds {some(more)} beside its vectors, tokens and lengths",
            hint="they stand in the file of the queries, projections and tables in --weights, too",
        )
    if not dump.settings:
        return roles
    said = note("ignored-settings", f"the settings of {dump.source} are not used")
    return replace(roles, findings=(*roles.findings, said))


def _check_complete(parts: Sequence[str], dump: Dump) -> None:
    missing = [role for role in ("q", "k", "v") if role not in parts]
    if missing:
        refuse_other_kinds(dump, missing)
        here = " and ".join(parts)
        raise InputError(
            f"the file has {here} but no {' and no '.join(missing)}: attention needs q, k and v",
            hint=f"the file holds {listing(dump)}",
        )


def _weights_error(parameters: list[str], dump: Dump, *, beside_x: bool) -> InputError:
    if beside_x:
        return InputError(
            f"the file holds token vectors and weights that are no projections by a known name "
            f"({some(parameters)}), so they would be left out",
            hint="projections are called w_q, q_proj.weight, query.weight and their like, or "
            "qkv.weight for all three; or give the token vectors alone",
        )
    return InputError(
        f"these are a model's weights, not activations: {listing(dump)}",
        hint=f"give what the model computes with them: {_WANTED}; "
        "--weights reads a layer's projections",
    )


def _one_array(dump: Dump, known: Mapping[str, str]) -> Roles:
    names = list(dump.arrays)
    stages = [name for name in names if _is_stage(name)]
    lone = len(names) == 1 and not known and not stages and not unknown_texts(dump)
    if lone and dump.arrays[names[0]].ndim in (2, 3):
        said = note(
            "one-array", f"the only array, {fit_to_print(names[0])}, is read as token vectors"
        )
        return Roles(dump, "token vectors", {"x": names[0]}, (said,))
    refuse_other_kinds(dump, CORE_WORDS)
    if not names:
        raise InputError("the file holds no numbers to attend over", hint=f"expected {_WANTED}")
    if stages and len(stages) == len(names):
        raise InputError(
            f"the file holds stages of a computation ({listing(dump)}) but not what they came from",
            hint=f"expected {_WANTED}",
        )
    raise InputError(
        f"neither token vectors nor q, k and v are among the names: {listing(dump)}",
        hint=f"expected {_WANTED}",
    )


def _is_stage(name: str) -> bool:
    return meaning(name, STAGE_WORDS) in _STAGES_ONLY


def _said(names: Mapping[str, str]) -> tuple[Finding, ...]:
    # The notes on token vectors and on masks name their arrays themselves.
    quiet = {"x"} if "q" not in names else set()
    other = {
        role: name
        for role, name in names.items()
        if name.lower() != role and role not in quiet and "mask" not in role
    }
    if not other:
        return ()
    words = ", ".join(f"{fit_to_print(name)} as {role}" for role, name in other.items())
    return (note("names", f"read {words}"),)


def _ignored(
    dump: Dump, names: Mapping[str, str], also: Collection[str] = ()
) -> tuple[Finding, ...]:
    used = {*names.values(), *also, *table_names(dump, "positions", "relative")}
    used |= set(token_arrays(dump, used))
    saved = dump.axes  # what attn itself has named the axes of, it has computed
    left = [n for n in dump.arrays if n not in used and n not in saved and not _is_stage(n)]
    masks = [name for name in left if "mask" in name.lower()]
    settings = stray_settings(dump, left)
    rest = [name for name in left if name not in (*masks, *settings)] + unknown_texts(dump)
    findings = []
    if settings:
        message = f'not used: {some(settings)}; settings stand in an object called "settings"'
        findings.append(Finding("ignored-setting", "warning", message))
    if rest:
        findings.append(note("ignored-arrays", f"not used: {some(rest)}"))
    if masks:
        words = "mask, attention_mask, key_padding_mask or additive_mask"
        message = f"not used: {some(masks)}; a mask is read from an array called {words}"
        findings.append(Finding("ignored-mask", "warning", message))
    return tuple(findings)
