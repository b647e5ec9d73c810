"""Tokenizer: text → ids with a label each, by the checkpoint's own tokenizer or its vocabulary."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from attn_cli.core.findings import Finding, note
from attn_cli.errors import AttnError, InputError
from attn_cli.models.hf.loading_errors import first_line


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text: ids and what each is of the text, special tokens by their names."""

    ids: tuple[int, ...]
    labels: tuple[str, ...]


class Tokenizer(Protocol):
    """What turns text into ids. `pad_id` None: it has no padding token."""

    pad_id: int | None
    notes: tuple[Finding, ...]

    def encode(self, text: str, *, special: bool = True) -> Encoded: ...
    def id_of(self, token: str) -> int | None: ...
    def label(self, token_id: int) -> str: ...


class LibraryTokenizer:
    """A tokenizer of transformers."""

    def __init__(self, own: Any, notes: tuple[Finding, ...] = ()) -> None:
        self.own, self.notes = own, notes
        self.pad_id: int | None = own.pad_token_id

    def encode(self, text: str, *, special: bool = True) -> Encoded:
        """Labels are the pieces of the text that the tokens stand for, where that is known.

        InputError where the tokenizer fails, as one with an empty vocabulary does.
        """
        fast = bool(self.own.is_fast)
        try:
            given = self.own(text, add_special_tokens=special, return_offsets_mapping=fast)
        except Exception as error:  # tokenizers raises Exception itself
            raise InputError(
                f"the tokenizer cannot cut this text: {first_line(error)}",
                hint="--input-ids needs no tokenizer",
            ) from error
        ids = tuple(int(i) for i in given["input_ids"])
        spans = given["offset_mapping"] if fast else [(0, 0)] * len(ids)
        labels = (
            text[start:end] if end > start and text[start:end].strip() else self.label(i)
            for i, (start, end) in zip(ids, spans, strict=True)
        )
        return Encoded(ids, tuple(labels))

    def id_of(self, token: str) -> int | None:
        """The id of a token as the vocabulary spells it."""
        vocabulary = self.own.get_vocab()
        return vocabulary.get(token)  # type: ignore[no-any-return]

    def label(self, token_id: int) -> str:
        """The token as the vocabulary spells it; its number where it is not there."""
        token = self.own.convert_ids_to_tokens(token_id)
        return f"#{token_id}" if token is None else str(token)


class VocabularyTokenizer:
    """The longest entry of a vocab.txt, again and again from the left; white space parts words.

    For vocabularies without the rules of a tokenizer, such as one entry an atom, bond or bracket of
    a SMILES. What begins no entry is one unknown token a character.

    >>> VocabularyTokenizer(["[PAD]", "C", "Cl", "(", ")"]).encode("C(Cl)").labels
    ('C', '(', 'Cl', ')')
    """

    notes: tuple[Finding, ...] = ()

    def __init__(self, entries: Sequence[str]) -> None:
        self.entries = list(entries)
        self.ids: Mapping[str, int] = {entry: i for i, entry in reversed(list(enumerate(entries)))}
        self.pad_id = self.ids.get("[PAD]")
        plain = sorted(filter(None, self.ids), key=len, reverse=True)
        self._next = re.compile("|".join(map(re.escape, plain)) + r"|\S", re.DOTALL)

    def encode(self, text: str, *, special: bool = True) -> Encoded:
        """[CLS] and [SEP] around the text where the vocabulary has them."""
        labels = self._next.findall(text)
        if special and "[CLS]" in self.ids and "[SEP]" in self.ids:
            labels = ["[CLS]", *labels, "[SEP]"]
        unknown = self.ids.get("[UNK]", -1)
        return Encoded(tuple(self.ids.get(each, unknown) for each in labels), tuple(labels))

    def id_of(self, token: str) -> int | None:
        """The id of an entry."""
        return self.ids.get(token)

    def label(self, token_id: int) -> str:
        """The entry; its number where it is not there."""
        return self.entries[token_id] if 0 <= token_id < len(self.entries) else f"#{token_id}"


class UnreadTokenizer:
    """Stands for a tokenizer whose files cannot be read: ids can be given all the same."""

    pad_id: int | None = None

    def __init__(self, why: AttnError) -> None:
        self.why = why
        said = f"tokens go by their ids: {why.message.partition(': ')[2]}"
        self.notes: tuple[Finding, ...] = (note("tokenizer", said),)

    def encode(self, text: str, *, special: bool = True) -> Encoded:
        """The reason why it cannot, raised."""
        raise self.why

    def id_of(self, token: str) -> int | None:
        """The reason why it cannot, raised."""
        raise self.why

    def label(self, token_id: int) -> str:
        """The token's number."""
        return f"#{token_id}"
