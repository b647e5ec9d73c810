"""The sample models do what they are said to do, in both engines."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli import formats
from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.trace import Trace
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from attn_cli.models.passage import passages
from attn_cli.models.toy import Model, model_from
from attn_cli.models.vocabulary import read_words
from tests.agreement.holding import STEPWISE, Oracle, assert_stages_agree, run

Array = NDArray[Any]
SAMPLES = Path(__file__).parents[2] / "sample_inputs"
LETTERS = "abcdefgh"
POSITIONS = 20
KEEP = frozenset({"weights", "output"})


@cache
def model(name: str) -> Model:
    return model_from(formats.read(str(SAMPLES / f"{name}.safetensors")))


def layers(name: str, text: str, engine: str = "numpy") -> list[tuple[AttentionInputs, Trace]]:
    """Every layer's question and its weights and output."""

    def attend(number: int, inputs: AttentionInputs) -> tuple[AttentionInputs, Trace]:
        return inputs, ENGINES[engine].run(inputs, Ask(keep=KEEP))

    every = passages(
        model(name),
        read_words(text, model(name).vocabulary),
        dtype="float64",
        attend=attend,
        output=lambda made: made[1]["output"],
    )
    return [made for _, made in every]


def induction(text: Sequence[str], engine: str) -> tuple[list[Array], Array]:
    """The weights (L, L) of both layers, and the probabilities (L, 8) of what comes next."""
    made = []
    words = read_words(" ".join(text), model("induction").vocabulary)
    for passage, trace in passages(
        model("induction"),
        words,
        dtype="float64",
        attend=lambda number, inputs: ENGINES[engine].run(inputs, Ask(keep=KEEP)),
        output=lambda trace: trace["output"],
    ):
        made.append(trace["weights"][0, 0])
        logits = passage.after[-1].array[0]
    powers = np.exp(logits)
    return made, powers / powers.sum(-1, keepdims=True)


def pairs_of(length: int, seed: int) -> list[tuple[list[str], int]]:
    """For every ordered pair x ≠ y a text of `length` letters that ends in x, and where the one
    earlier x stands, with y after it; the letters around are drawn from all but x."""
    rng = np.random.default_rng([length, seed])
    texts = []
    for place, (x, y) in enumerate(itertools.permutations(LETTERS, 2)):
        text = rng.choice([letter for letter in LETTERS if letter != x], length).tolist()
        earlier = place % (length - 2)
        text[earlier], text[earlier + 1], text[-1] = x, y, x
        texts.append((text, earlier))
    return texts


CASES = [("numpy", length) for length in range(3, POSITIONS + 1)]
CASES += [("torch", length) for length in (3, 4, 11, POSITIONS)]


@pytest.mark.parametrize("engine, length", CASES)
def test_the_last_letter_looks_at_what_followed_it_and_predicts_it(
    engine: str, length: int
) -> None:
    seen = set()
    for text, earlier in pairs_of(length, seed=0):
        (_, second), shares = induction(text, engine)
        assert second[-1, earlier + 1] > 0.99, text
        follower = text[earlier + 1]
        assert LETTERS[shares[-1].argmax()] == follower, text
        assert shares[-1].max() > 0.99, text
        seen.add((text[-1], follower))
    assert len(seen) == 8 * 7


@pytest.mark.parametrize("engine", STEPWISE)
def test_the_first_layer_looks_at_the_position_before(engine: str) -> None:
    text = np.random.default_rng(5).choice(list(LETTERS), POSITIONS)
    (first, _), _ = induction(text.tolist(), engine)
    np.testing.assert_array_less(0.999, np.diagonal(first, -1))


@pytest.mark.parametrize("letter", LETTERS)
def test_a_letter_twice_in_a_row_followed_itself(letter: str) -> None:
    (_, second), _ = induction([letter, letter], "numpy")
    assert second[1, 1] > 0.99


def test_letters_that_are_new_rest_on_themselves_and_predict_nothing() -> None:
    (_, second), shares = induction(list(LETTERS), "numpy")
    np.testing.assert_array_less(0.99, np.diagonal(second))
    np.testing.assert_allclose(shares, 1 / 8, atol=1e-4)


def test_two_continuations_share_the_weight() -> None:
    (_, second), shares = induction(list("abcada"), "numpy")
    np.testing.assert_allclose(second[-1, [1, 4]], 0.5, atol=1e-3)
    assert sorted(np.argsort(shares[-1])[-2:]) == [LETTERS.index("b"), LETTERS.index("d")]


def test_beyond_its_positions_it_says_so() -> None:
    text = list("ab" * POSITIONS)[: POSITIONS + 1]
    with pytest.raises(InputError, match="the learned positions end at 19"):
        induction(text, "numpy")


TEXTS = {"induction": "a b c d a b h a", "sentence_model": "我喜欢苹果。你吃香蕉"}


@pytest.mark.parametrize("engine", STEPWISE)
@pytest.mark.parametrize("name", TEXTS)
def test_an_engine_agrees_on_every_stage_of_every_layer(name: str, engine: str) -> None:
    for inputs, _ in layers(name, TEXTS[name]):
        assert_stages_agree(Oracle(inputs), run(engine, inputs), "float64")


def test_the_sentence_model_reads_a_sentence() -> None:
    (inputs, trace) = layers("sentence_model", TEXTS["sentence_model"])[0]
    assert inputs.labels is not None
    words = inputs.labels.query[0]
    found = {word: words[trace["weights"][0, 0, i].argmax()] for i, word in enumerate(words)}
    assert (found["喜欢"], found["苹果"]) == ("我", "喜欢")
    assert (found["吃"], found["香蕉"]) == ("你", "吃")
