"""names: the words of other projects are known, and doubt is an error."""

from __future__ import annotations

import re

import pytest

from attn_cli.core.names import (
    INPUT_WORDS,
    STAGE_WORDS,
    TEXT_WORDS,
    Words,
    looks_like_parameter,
    meaning,
    recognise,
)
from attn_cli.core.trace import ALL_STAGES
from attn_cli.errors import InputError


@pytest.mark.parametrize(
    "theirs, ours",
    [
        ("query_states", "q"),  # transformers
        ("key_layer", "k"),
        ("attn_weights", "weights"),
        ("hook_attn_scores", "masked"),  # TransformerLens
        ("hook_pattern", "weights"),
        ("z", "context"),
        ("qk_similarities", "scores"),  # x-transformers
        ("softmax_lse", "lse"),  # flash-attention
        ("masked_scores", "masked"),
        ("hidden_states", "x"),
        ("out", "output"),
    ],
)
def test_words_of_other_projects(theirs: str, ours: str) -> None:
    assert recognise([theirs]) == {ours: theirs}


@pytest.mark.parametrize("name", ["Query States", "query-states", "QueryStates", "query.states"])
def test_case_and_separators_do_not_matter(name: str) -> None:
    assert recognise([name]) == {"q": name}


@pytest.mark.parametrize("words", [INPUT_WORDS, STAGE_WORDS, TEXT_WORDS])
def test_no_word_means_two_things(words: Words) -> None:
    plain = [re.sub("_", "", word) for theirs in words.values() for word in theirs]
    assert sorted(plain) == sorted(set(plain))
    assert all(ours in theirs for ours, theirs in words.items())


def test_every_stage_has_its_words() -> None:
    assert set(STAGE_WORDS) == {*ALL_STAGES, "lse"}


def test_context_is_a_sequence_among_inputs_and_a_stage_in_a_trace() -> None:
    assert recognise(["encoder_hidden_states"], INPUT_WORDS) == {"context": "encoder_hidden_states"}
    assert recognise(["encoder_hidden_states"]) == {}
    assert recognise(["context_layer"]) == {"context": "context_layer"}


@pytest.mark.parametrize("first, second", [("q", "query"), ("query", "Q"), ("Q", "hook_q")])
def test_two_names_of_one_role_are_refused(first: str, second: str) -> None:
    with pytest.raises(InputError, match=f"'{first}' and '{second}' both mean q"):
        recognise(["k", first, second])


def test_one_prefix_is_dropped() -> None:
    names = [
        "blocks.0.attn.hook_q",
        "blocks.0.attn.hook_k",
        "blocks.0.attn.pattern",
        "blocks.0.ln.loss",
    ]
    assert recognise(names) == {
        "q": "blocks.0.attn.hook_q",
        "k": "blocks.0.attn.hook_k",
        "weights": "blocks.0.attn.pattern",
    }


def test_whole_names_come_before_prefixed_ones() -> None:
    assert recognise(["q", "layer0.q", "layer1.k"]) == {"q": "q"}


@pytest.mark.parametrize("names", [["layer0.q", "layer1.q"], ["encoder.q", "decoder.k"]])
def test_several_prefixes_are_refused(names: list[str]) -> None:
    with pytest.raises(InputError, match="several prefixes"):
        recognise(names)


def test_a_prefix_alone_makes_nothing_known_that_needs_no_q() -> None:
    assert recognise(["linear.weights", "linear.bias"], INPUT_WORDS) == {}


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.0.self_attn.q_proj.weight",
        "transformer.h.0.attn.c_attn.bias",
        "in_proj_weight",
        "W_Q",
        "wo",
        "blocks.0.attn.W_K",
        "to_q.weight",
        "Wqkv",
    ],
)
def test_parameters_of_models(name: str) -> None:
    assert looks_like_parameter(name)


@pytest.mark.parametrize(
    "name", ["q", "weights", "attn_weights", "attn_bias", "bias", "q_proj", "wq2"]
)
def test_what_is_computed_is_no_parameter(name: str) -> None:
    assert not looks_like_parameter(name)


def test_meaning_of_one_name() -> None:
    assert meaning("layer3.attn_weights") == "weights"
    assert meaning("embeddings") == "x"
    assert meaning("emb") is None
