"""Understanding: a dump and what was asked for → the question, its settings, and what is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.dump import Dump
from attn_cli.core.findings import Finding
from attn_cli.core.inputs import AttentionInputs, Labels
from attn_cli.core.settings import Choices
from attn_cli.errors import InputError
from attn_cli.recognize.labels import Positions, label_positions
from attn_cli.recognize.masking import Load, Masking, find_masking
from attn_cli.recognize.numbers import real, said_of_conversions, said_of_mixture
from attn_cli.recognize.origin import in_words_of, speaking_of
from attn_cli.recognize.parameters import Parameters
from attn_cli.recognize.positions import Inside, Positioning, find_positions, inside
from attn_cli.recognize.qkv import from_qkv
from attn_cli.recognize.question import Question
from attn_cli.recognize.reading import Reading
from attn_cli.recognize.roles import Roles, find_context, find_roles
from attn_cli.recognize.settings import Asked, as_factor, resolve
from attn_cli.recognize.sources import (
    check_nothing_to_make,
    said_of_weights_file,
    weights_file,
)
from attn_cli.recognize.summary import settings, summary
from attn_cli.recognize.tables import SAVED_AS
from attn_cli.recognize.vectors import from_vectors

Array = NDArray[Any]


def understand(
    dump: Dump,
    choices: Choices,
    *,
    context: Dump | None = None,
    weights: Dump | None = None,
    load: Load | None = None,
) -> Reading:
    """What a dump means under these choices.

    `context` holds the sequence that token vectors attend to, where it is a file of its own;
    `weights` a layer's projections, its tables of positions and its settings, which give way to
    the dump's; `load` reads the arrays that a mask expression names. Every reading and conversion
    that is chosen on the way is a note. Raises InputError, naming the file's own arrays, for what
    is impossible, and for what could be read in more than one way.
    """
    asked = resolve(_settings_of(dump, weights), choices, dump.source)
    second = None if context is None else find_context(context)
    parameters = None if weights is None else weights_file(weights)
    positions = find_positions([dump] if weights is None else [dump, weights], asked)
    with speaking_of(dump.source):
        remade = parameters is not None or asked.choices.init is not None
        roles = find_roles(dump, remade=remade or positions.scheme.acts == "added")
        question = _question(roles, asked, second, positions, parameters)
        within = inside(positions, question.q.shape[1])
        inputs = _inputs(question, roles)
    compares = positions.text if positions.compares else None
    masking = find_masking(question, roles, second, asked, load, compares=compares)
    with speaking_of(dump.source):
        labels, said_of_labels = _labels(question, roles, second, masking)
        inputs = _complete(inputs, question, asked, masking, labels, roles, within)
    return Reading(
        inputs=inputs,
        summary=summary(inputs, question, roles, second),
        settings=settings(inputs, question, asked, masking, positions),
        names=roles.names,
        tables=_tables(positions),
        findings=(
            *_of_dumps(roles, second),
            *(() if weights is None else said_of_weights_file(weights, parameters)),
            *asked.findings,
            *question.findings,
            *within.findings,
            *positions.findings,
            *_of_numbers(question, roles, positions),
            *masking.findings,
            *said_of_labels,
        ),
    )


def _settings_of(dump: Dump, weights: Dump | None) -> Mapping[str, Any]:
    """The settings of both files; InputError where they differ on one."""
    if weights is None:
        return dump.settings
    for name in weights.settings.keys() & dump.settings.keys():
        ours, theirs = dump.settings[name], weights.settings[name]
        if ours is not None and theirs is not None and ours != theirs:
            raise InputError(
                f"{dump.source} sets {name} to {ours!r} and {weights.source} to {theirs!r}",
                hint="take the setting out of one of the files",
            )
    return {**weights.settings, **dump.settings}


def _question(
    roles: Roles,
    asked: Asked,
    second: Roles | None,
    positions: Positioning,
    weights: Parameters | None,
) -> Question:
    if roles.kind == "token vectors":
        return from_vectors(roles, asked, second, positions=positions, weights=weights)
    if second is not None:
        raise InputError(
            f"a context, {second.dump.source}, is for token vectors, and the file holds q, k and v",
            hint="k and v already are the sequence that is attended to",
        )
    check_nothing_to_make(asked, weights)
    if positions.scheme.acts == "added":
        raise InputError(
            f"{asked.origin('positions')} is {positions.text}, which is added to token vectors, "
            "and the file holds q, k and v",
            hint="rope, alibi and relative act on q, k and their scores",
        )
    return from_qkv(roles, asked)


def _inputs(question: Question, roles: Roles) -> AttentionInputs:
    """q, k and v with where they come from, as yet without masks and positions."""
    with in_words_of(roles.names):
        return AttentionInputs(
            question.q, question.k, question.v, x=question.x, origin=question.origin
        )


def _of_numbers(question: Question, roles: Roles, positions: Positioning) -> tuple[Finding, ...]:
    """What is said of the precisions that the arrays have in their files."""
    extras = {roles.label(role): roles.dtype(role) for role in ("bias", "sinks") if role in roles}
    if positions.table is not None:
        extras[positions.table.label] = positions.table.dtype
    return (
        *said_of_conversions({**question.dtypes, **extras}),
        *said_of_mixture(question.dtypes),
    )


def _tables(positions: Positioning) -> Mapping[str, Array]:
    """The table that the positions were made of, by the name under which it is saved."""
    table = positions.scheme.table
    if table is None or positions.table is None:
        return {}
    return {SAVED_AS[table]: positions.table.array}


def _labels(
    question: Question, roles: Roles, second: Roles | None, masking: Masking
) -> tuple[Labels | None, tuple[Finding, ...]]:
    batch, _, queries, keys = question.shape
    own = None if second is None else second.text("tokens")
    return label_positions(
        roles.text("tokens"),
        roles.text("context_tokens") if own is None else own,
        Positions(batch, queries, keys, masking.q_offset, question.cross, masking.lengths),
    )


def _query_lengths(question: Question, masking: Masking) -> tuple[int, ...] | None:
    """The lengths of the keys, where queries and keys are the same positions."""
    _, _, queries, keys = question.shape
    same = not question.cross and masking.q_offset == 0 and queries == keys
    return masking.lengths if same else None


def _complete(
    inputs: AttentionInputs,
    question: Question,
    asked: Asked,
    masking: Masking,
    labels: Labels | None,
    roles: Roles,
    within: Inside,
) -> AttentionInputs:
    scale, softcap = asked.choices.scale, asked.choices.softcap
    return replace(
        inputs,
        mask=masking.mask,
        additive=masking.additive,
        bias=masking.bias,
        scale=as_factor(scale),
        softcap=None if softcap is None else float(softcap),
        sinks=real(roles.array("sinks"), roles.label("sinks")) if "sinks" in roles else None,
        q_offset=masking.q_offset,
        query_lengths=_query_lengths(question, masking),
        labels=labels,
        rotation=within.rotation,
        position_bias=within.bias,
    )


def _of_dumps(roles: Roles, second: Roles | None) -> tuple[Finding, ...]:
    others = () if second is None else (*second.dump.findings, *second.findings)
    return (*roles.dump.findings, *roles.findings, *others)
