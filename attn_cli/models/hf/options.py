"""Options: which model to load and what to give it, as plain values; no torch."""

from __future__ import annotations

from dataclasses import dataclass

BACKENDS = ("sdpa", "eager")  # those that attn can look into


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """A model and how to hold it.

    `source` is a folder in Hugging Face layout or the name of a model on the hub. With
    `random_weights` only its configuration is read, and `seed` draws the numbers. `dtype` None
    keeps the precision of the file; `backend` None leaves the choice to transformers, else it
    is one of BACKENDS. `device_map` ("auto") spreads the model over devices by accelerate.
    """

    source: str
    random_weights: bool = False
    seed: int = 0
    trust_remote_code: bool = False
    device: str = "cpu"
    dtype: str | None = None
    device_map: str | None = None
    backend: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """What the model is given: exactly one of texts, a text file, tokens, ids, an image, a drawing.

    `text_file` holds one text; `tokens_file` is JSON, a list of tokens of the vocabulary or of such
    lists. `image` is a picture, or pixel values as .npy. `drawn` draws random ids, pixels or sound
    with `seed`, of so many tokens. The decoder of an encoder-decoder gets `decoder_texts` or
    `decoder_ids`, else its start token.
    """

    texts: tuple[str, ...] = ()
    text_file: str | None = None
    tokens_file: str | None = None
    input_ids: tuple[tuple[int, ...], ...] = ()
    image: str | None = None
    drawn: int | None = None
    seed: int = 0
    decoder_texts: tuple[str, ...] = ()
    decoder_ids: tuple[tuple[int, ...], ...] = ()
