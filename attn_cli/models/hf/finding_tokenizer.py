"""The tokenizer of a checkpoint: the library's where its files are there, else its vocab.txt."""

from __future__ import annotations

from pathlib import Path

from attn_cli.core.findings import note
from attn_cli.errors import InputError
from attn_cli.formats.names import printable
from attn_cli.formats.source import naming
from attn_cli.models.checkpoint.config_file import read_object
from attn_cli.models.hf.extra import transformers
from attn_cli.models.hf.loading_errors import first_line, not_trusted
from attn_cli.models.hf.source import Source
from attn_cli.models.hf.tokens import (
    LibraryTokenizer,
    Tokenizer,
    UnreadTokenizer,
    VocabularyTokenizer,
)

_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "source.spm",
    "merges.txt",
    "tekken.json",
)
_VOCABULARY = "vocab.txt"
_LARGEST = 64 << 20  # bytes of a vocab.txt


def tokenizer_of(source: Source, *, trust_remote_code: bool) -> Tokenizer | None:
    """The tokenizer; None where the folder has no file of one.

    A folder with vocab.txt alone is asked for by its content: transformers makes a tokenizer of
    other rules of it and says nothing. What cannot be read is said where a text is to be cut.
    """
    folder = source.folder
    if any((folder / file).exists() for file in _FILES) or _named(folder):
        return _library(source, trust_remote_code=trust_remote_code)
    path = folder / _VOCABULARY
    return _vocabulary(path) if path.is_file() else None


def _named(folder: Path) -> bool:
    """Whether a file of settings names the class of the tokenizer."""
    path = folder / "tokenizer_config.json"
    return path.is_file() and bool(read_object(path).get("tokenizer_class"))


def _library(source: Source, *, trust_remote_code: bool) -> Tokenizer | None:
    try:
        own = transformers().AutoTokenizer.from_pretrained(
            str(source.folder), trust_remote_code=trust_remote_code
        )
        return LibraryTokenizer(own)
    except (Exception, SystemExit) as error:  # tokenizers raises Exception itself
        if "trust_remote_code" in str(error):
            return UnreadTokenizer(not_trusted(source, "tokenizer"))
        said = f"{printable(source.name)}: its tokenizer cannot be read: {first_line(error)}"
        return UnreadTokenizer(InputError(said, hint="--input-ids needs no tokenizer"))


def _vocabulary(path: Path) -> Tokenizer:
    with naming(str(path)):
        if path.stat().st_size > _LARGEST:
            raise InputError(f"takes more than {_LARGEST:,} bytes")
        try:
            with path.open(encoding="utf-8") as lines:  # not splitlines: U+2028 may be an entry
                entries = [line.removesuffix("\n") for line in lines]
        except UnicodeDecodeError as error:
            raise InputError("is not UTF-8 text") from error
        if not any(entries):
            raise InputError("holds no token")
    if any(entry.startswith("##") for entry in entries):
        how = note(
            "tokenizer", "vocab.txt holds ## pieces, so text is cut as BERT does (WordPiece)"
        )
        return LibraryTokenizer(transformers().BertTokenizer(str(path)), (how,))
    made = VocabularyTokenizer(entries)
    made.notes = (
        note(
            "tokenizer",
            "there is vocab.txt and no rules, so text is cut into the longest entries of it",
        ),
    )
    return made
