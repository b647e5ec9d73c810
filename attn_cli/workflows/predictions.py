"""Predictions: logits as the likeliest next tokens of every position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding, Place
from attn_cli.core.model_results import NextToken, Prediction
from attn_cli.models.passage import Passage
from attn_cli.models.toy import Model

Array = NDArray[Any]

TOP = 5  # of the tokens that may come next


def predictions(
    last: Passage, tokens: Sequence[str], model: Model, queries: Sequence[int]
) -> tuple[Prediction, ...]:
    """The best of softmax(logits) after each of `queries`, ties in the vocabulary's order.

    The logits are a step behind the last layer; without them nothing is predicted.
    """
    logits = _logits(last)
    if logits is None:
        return ()
    shares = _softmax(logits[0].astype(np.float64))
    words = model.vocabulary.tokens
    return tuple(
        Prediction(0, query, tokens[query], entropy(shares[query]), _best(shares[query], words))
        for query in queries
    )


def said_of_logits(last: Passage) -> Iterator[Finding]:
    """An error where the logits are not finite, which no layer's own checks see."""
    logits = _logits(last)
    if logits is None or np.isfinite(logits).all():
        return
    _, query, token = (int(i) for i in np.argwhere(~np.isfinite(logits))[0])
    yield Finding(
        "nonfinite",
        "error",
        f"the logits are not finite, the first at query {query}, token {token} of the vocabulary",
        Place(stage="logits", layer=last.number, batch=0, query=query),
    )


def _logits(last: Passage) -> Array | None:
    """(1, L, vocabulary), or None where the model has no unembedding."""
    return next((step.array for step in last.after if step.stage == "logits"), None)


def _softmax(logits: Array) -> Array:
    """Softmax over the last axis; NaN in a row that holds NaN or +inf, or −inf alone."""
    with np.errstate(invalid="ignore"):
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        shares: Array = powers / powers.sum(-1, keepdims=True)
    return shares


def entropy(shares: Array) -> float:
    """−Σ p·ln p in nats.

    >>> entropy(np.array([0.5, 0.5, 0.0])).hex() == np.log(2.0).hex()
    True
    """
    logs = np.log(np.where(shares > 0, shares, 1))
    return float(-(shares * logs).sum())


def _best(shares: Array, vocabulary: Sequence[str]) -> tuple[NextToken, ...]:
    """The likeliest tokens; none where the shares are NaN."""
    if np.isnan(shares).any():
        return ()
    best = np.argsort(-shares, kind="stable")[:TOP].tolist()
    return tuple(NextToken(vocabulary[index], float(shares[index])) for index in best)
