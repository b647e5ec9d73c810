"""Understanding: a dump and what was asked for → the question, its settings, and what is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.dump import Dump
from attn_cli.core.findings import Finding
from attn_cli.core.inputs import AttentionInputs, Labels
from attn_cli.core.results import InputSummary
from attn_cli.core.settings import Choices, Settings
from attn_cli.errors import InputError
from attn_cli.recognize.labels import Positions, label_positions
from attn_cli.recognize.masking import Load, Masking, find_masking
from attn_cli.recognize.numbers import precision, real, said_of_conversions, said_of_mixture
from attn_cli.recognize.origin import in_words_of, speaking_of
from attn_cli.recognize.qkv import from_qkv
from attn_cli.recognize.question import Question
from attn_cli.recognize.reading import Reading
from attn_cli.recognize.roles import Roles, find_context, find_roles
from attn_cli.recognize.settings import Asked, as_factor, resolve
from attn_cli.recognize.vectors import from_vectors

Array = NDArray[Any]


def understand(
    dump: Dump, choices: Choices, *, context: Dump | None = None, load: Load | None = None
) -> Reading:
    """What a dump means under these choices.

    `context` holds the sequence that token vectors attend to, where it is a file of its own; `load`
    reads the arrays that a mask expression names. Every reading and conversion that is chosen on
    the way is a note. Raises InputError, naming the file's own arrays, for what is impossible, and
    for what could be read in more than one way.
    """
    asked = resolve(dump.settings, choices, dump.source)
    second = None if context is None else find_context(context)
    with speaking_of(dump.source):
        roles = find_roles(dump)
        question = _question(roles, asked, second)
        with in_words_of(roles.names):
            inputs = AttentionInputs(question.q, question.k, question.v, x=question.x)
    masking = find_masking(question, roles, second, asked, load)
    with speaking_of(dump.source):
        labels, said_of_labels = _labels(question, roles, second, masking)
        inputs = _complete(inputs, asked, masking, labels, roles)
    extras = {roles.label(role): roles.dtype(role) for role in ("bias", "sinks") if role in roles}
    return Reading(
        inputs=inputs,
        summary=_summary(inputs, question, roles, second),
        settings=_settings(inputs, question, asked, masking),
        names=roles.names,
        findings=(
            *_of_dumps(roles, second),
            *asked.findings,
            *question.findings,
            *said_of_conversions({**question.dtypes, **extras}),
            *said_of_mixture(question.dtypes),
            *masking.findings,
            *said_of_labels,
        ),
    )


def _question(roles: Roles, asked: Asked, second: Roles | None) -> Question:
    if roles.kind == "token vectors":
        return from_vectors(roles, asked, second)
    if second is not None:
        raise InputError(
            f"a context, {second.dump.source}, is for token vectors, and the file holds q, k and v",
            hint="k and v already are the sequence that is attended to",
        )
    return from_qkv(roles, asked)


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


def _complete(
    inputs: AttentionInputs, asked: Asked, masking: Masking, labels: Labels | None, roles: Roles
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
        labels=labels,
    )


def _summary(
    inputs: AttentionInputs, question: Question, roles: Roles, second: Roles | None
) -> InputSummary:
    batch, _, queries, keys = inputs.shape
    vectors = question.kind == "token vectors" and question.x is not None
    return InputSummary(
        source=roles.dump.source,
        format=roles.dump.format,
        kind=question.kind,
        batch=batch,
        queries=queries,
        keys=keys,
        d_model=question.x.shape[-1] if vectors and question.x is not None else None,
        d_k=inputs.q.shape[-1],
        d_v=inputs.v.shape[-1],
        precision=precision(question.dtypes.values()),
        sha256=roles.dump.sha256,
        context=_context_name(question, roles, second),
        tokens=roles.text("tokens") is not None,
    )


def _context_name(question: Question, roles: Roles, second: Roles | None) -> str | None:
    if not question.cross:
        return None
    return roles.label("context") if second is None else second.dump.source


def _settings(
    inputs: AttentionInputs, question: Question, asked: Asked, masking: Masking
) -> Settings:
    return Settings(
        heads=inputs.shape[1],
        kv_heads=inputs.kv_heads,
        scale=inputs.effective_scale,
        softcap=inputs.softcap,
        mask=masking.expression,
        align=asked.choices.align,
        layout=question.layout,
        from_file=asked.from_file,
    )


def _of_dumps(roles: Roles, second: Roles | None) -> tuple[Finding, ...]:
    others = () if second is None else (*second.dump.findings, *second.findings)
    return (*roles.dump.findings, *roles.findings, *others)
