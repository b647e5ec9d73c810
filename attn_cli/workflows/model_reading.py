"""Reading a model: its file, the text and the choices → what every layer's run shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from attn_cli.core.dump import Dump
from attn_cli.core.findings import Finding, note
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results import InputSummary
from attn_cli.core.settings import Choices, Settings
from attn_cli.errors import InputError
from attn_cli.masks.expression import conjunction, parse
from attn_cli.models.attention import mask_expression
from attn_cli.models.config import ModelConfig
from attn_cli.models.stream import ingredients
from attn_cli.models.toy import Model, model_from, scheme_of
from attn_cli.models.vocabulary import Vocabulary, Words, read_words
from attn_cli.positions import POSITIONS
from attn_cli.recognize.numbers import precision
from attn_cli.recognize.reading import Reading
from attn_cli.recognize.settings import as_factor, option, resolve
from attn_cli.recognize.tables import SAVED_AS

# What may be tried on a model in place of what its config says; the name in Choices.
POSITION_SETTINGS = ("rope_base", "relative_bidirectional", "max_distance")
OVERRIDES = ("masks", "scale", "softcap", "positions", *POSITION_SETTINGS)
WIDE = ("float32", "float64")
WORDS_SHOWN = 3


@dataclass(frozen=True, slots=True, eq=False)
class ModelReading:
    """A model with the choices put over its config, a text in its tokens, and what is said."""

    model: Model
    words: Words
    summary: InputSummary
    settings: Settings
    findings: tuple[Finding, ...]

    def layer(self, inputs: AttentionInputs) -> Reading:
        """One layer's question; what is said of the model is not said again here.

        Positions that were added once, to the embedding, are in its x: its own settings have those
        alone that act in every layer, and so has a file that it is saved to.
        """
        scheme = self.model.scheme
        if scheme.acts == "added":
            return Reading(inputs, self.summary, replace(self.settings, positions=None))
        table = scheme.table
        tables = {} if table is None else {SAVED_AS[table]: self.model.tables[table]}
        return Reading(inputs, self.summary, self.settings, tables=tables)


def read_model(dump: Dump, choices: Choices, text: str | None) -> ModelReading:
    """The model of a file, asked about `text`.

    `choices` may change the mask, scale, softcap and positions; InputError for any other, for a
    text that is missing or holds what is no token, and for a file that holds no model.
    """
    model = model_from(dump)
    if text is None:
        raise InputError(
            f"{dump.source} holds a model: it needs a text to attend over",
            hint=f'give one in its tokens, for example --text "{_some(model.vocabulary)}"',
        )
    _check_choices(choices)
    chosen = replace(model, config=_overridden(model, resolve({}, choices).choices))
    words = read_words(text, model.vocabulary)
    return ModelReading(
        model=chosen,
        words=words,
        summary=_summary(dump, chosen.config, len(words.ids)),
        settings=_settings(chosen.config, model.config),
        findings=(
            *dump.findings,
            *_said_of_precision(dump),
            *_said_of_positions(chosen),
            *words.findings,
        ),
    )


def _some(vocabulary: Vocabulary) -> str:
    return " ".join(vocabulary.tokens[:WORDS_SHOWN])


def _check_choices(choices: Choices) -> None:
    for field in fields(choices):
        if field.name not in OVERRIDES and getattr(choices, field.name) is not None:
            raise InputError(
                f"{option(field.name)} is for token vectors or q, k and v: a model says it itself",
                hint=f"with a model go {', '.join(map(option, ('mask', *OVERRIDES[1:])))}",
            )


def _overridden(model: Model, choices: Choices) -> ModelConfig:
    """The config with the choices over it."""
    changes: dict[str, Any] = {
        name: value for name in OVERRIDES[1:] if (value := getattr(choices, name)) is not None
    }
    if choices.masks:
        changes["mask"] = str(conjunction([parse(mask) for mask in choices.masks]))
    config = replace(model.config, **changes)
    _check_positions(model, config, changes)
    return config


def _check_positions(model: Model, config: ModelConfig, changes: Mapping[str, Any]) -> None:
    """InputError for a scheme that is not known or lacks its table, and for one's idle setting."""
    scheme = scheme_of(config)
    if config.positions not in scheme.spellings:
        raise InputError(
            f"--positions is {config.positions!r}: expected {' or '.join(scheme.spellings)}"
        )
    if scheme.table is not None and scheme.table not in model.tables:
        raise InputError(
            f"--positions is {config.positions}, and this model has no {scheme.table}.weight",
            hint=f"its own positions are {model.config.positions}",
        )
    for name in POSITION_SETTINGS:
        if name in changes and name not in scheme.settings:
            owner = next(each for each in POSITIONS if name in POSITIONS[each].settings)
            raise InputError(
                f"{option(name)} was given, and the model's positions are {scheme.name}",
                hint=f"it belongs to --positions {owner}",
            )


def _summary(dump: Dump, config: ModelConfig, length: int) -> InputSummary:
    return InputSummary(
        source=dump.source,
        format=dump.format,
        kind="model",
        batch=1,
        queries=length,
        keys=length,
        d_model=config.d_model,
        d_k=config.d_k,
        d_v=config.d_v,
        precision=precision(dump.dtypes.values()),
        sha256=dump.sha256,
        tokens=True,
    )


def _settings(config: ModelConfig, own: ModelConfig) -> Settings:
    """What the run uses; `from_file` has what the model brought and no option changed."""
    mask = mask_expression(config)
    scale = as_factor(config.scale)
    scheme = scheme_of(config)
    reads = {name: getattr(config, name) for name in POSITION_SETTINGS if name in scheme.settings}
    kept = [
        name
        for name in ("mask", "scale", "softcap")
        if getattr(own, name) is not None and getattr(config, name) == getattr(own, name)
    ]
    return Settings(
        heads=config.heads,
        kv_heads=config.kv_heads,
        scale=config.d_k**-0.5 if scale is None else scale,
        softcap=config.softcap,
        mask=None if mask is None else str(mask),
        align=None,
        layout="bhld",
        from_file=("heads", *kept),
        positions=_spelled(config),
        **reads,
    )


def _spelled(config: ModelConfig) -> str | None:
    """The position scheme with its variant, None where there is none."""
    scheme = scheme_of(config)
    if scheme.acts == "nothing":
        return None
    plain = config.positions == scheme.name and scheme.variants
    return f"{scheme.name}:{scheme.variants[0]}" if plain else config.positions


def _said_of_positions(model: Model) -> tuple[Finding, ...]:
    """What was chosen where the config leaves it open: slopes, pairs, buckets."""
    if model.scheme.acts == "nothing":
        return ()
    words = f"positions {_spelled(model.config)}: {model.scheme.says(ingredients(model))}"
    return (note("positions", words),)


def _said_of_precision(dump: Dump) -> tuple[Finding, ...]:
    narrow = [dtype for dtype in dict.fromkeys(dump.dtypes.values()) if dtype not in WIDE]
    if not narrow:
        return ()
    return (note("dtype-widened", f"the model's arrays are {', '.join(narrow)}, widened exactly"),)
