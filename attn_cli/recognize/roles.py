"""Roles: which array of a dump is what, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from attn_cli.recognize.texts import find_tokens, token_arrays, unknown_texts

Array = NDArray[Any]
_WANTED = "x or vectors for token vectors, or q, k and v"
_STAGES_ONLY = frozenset(STAGE_WORDS) - {"x", "q", "k", "v"}


@dataclass(frozen=True, slots=True)
class Roles:
    """attn's word → the file's name; `kind` says which of them the computation starts from.

    `findings` say which names are not attn's own, and which arrays are left aside.
    """

    dump: Dump
    kind: Literal["token vectors", "q, k, v"]
    names: Mapping[str, str]
    findings: tuple[Finding, ...] = ()

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


def find_roles(dump: Dump) -> Roles:
    """The roles of a dump's arrays.

    Raises InputError where the file holds neither token vectors nor q, k and v, where it holds only
    some of them, where two arrays claim one role, and where it holds a model's weights instead.
    """
    known = recognise(dump.arrays, INPUT_WORDS)
    refuse_other_kinds(dump, BESIDE)
    parts = [role for role in ("q", "k", "v") if role in known]
    if parts:
        _check_complete(parts, dump)
        # In a saved trace `context` is the stage; a second sequence has no use beside q, k and v.
        names = {role: name for role, name in known.items() if role != "context"}
        return Roles(dump, "q, k, v", names, (*_said(names), *_ignored(dump, names)))
    parameters = [name for name in dump.arrays if looks_like_parameter(name)]
    if parameters:
        raise _weights_error(parameters, dump, beside_x="x" in known)
    if "x" in known:
        return Roles(dump, "token vectors", known, (*_said(known), *_ignored(dump, known)))
    return _one_array(dump, known)


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
    if more:
        raise InputError(
            f"context {dump.source} holds {some(more)} beside its vectors, tokens and lengths",
            hint="masks stand in the file of the queries",
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
            f"the file holds token vectors and a model's weights ({some(parameters)}): attn run "
            "attends without projections, so the weights would be left out",
            hint="apply them and give q, k and v, or give the token vectors alone",
        )
    return InputError(
        f"these are a model's weights, not activations: {listing(dump)}",
        hint=f"give what the model computes with them: {_WANTED}",
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


def _ignored(dump: Dump, names: Mapping[str, str]) -> tuple[Finding, ...]:
    used = set(names.values())
    used |= set(token_arrays(dump, used))
    left = [name for name in dump.arrays if name not in used and not _is_stage(name)]
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
