"""The tokenizer of a checkpoint: the library's where its files are there, else its vocab.txt."""

from __future__ import annotations

from pathlib import Path

from attn_cli.core.findings import note
from attn_cli.errors import InputError
from attn_cli.formats.source import naming
from attn_cli.models.checkpoint.config_file import read_object
from attn_cli.models.hf.extra import transformers
from attn_cli.models.hf.tokens import LibraryTokenizer, Tokenizer, VocabularyTokenizer

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


def tokenizer_of(folder: Path | None, name: str, *, trust_remote_code: bool) -> Tokenizer | None:
    """The tokenizer; None where a folder has no file of one.

    A folder with vocab.txt alone is asked for by its content: transformers makes a tokenizer of
    other rules of it and says nothing. InputError for files that cannot be read.
    """
    if folder is None or any((folder / file).exists() for file in _FILES) or _named(folder):
        return _library(name, trust_remote_code=trust_remote_code)
    path = folder / _VOCABULARY
    return _vocabulary(path) if path.is_file() else None


def _named(folder: Path) -> bool:
    """Whether a file of settings names the class of the tokenizer."""
    path = folder / "tokenizer_config.json"
    return path.is_file() and bool(read_object(path).get("tokenizer_class"))


def _library(name: str, *, trust_remote_code: bool) -> Tokenizer | None:
    try:
        own = transformers().AutoTokenizer.from_pretrained(
            name, trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError, KeyError, TypeError, ImportError, AttributeError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{name}: its tokenizer cannot be read: {said}",
            hint="give --tokens or --input-ids, which need no tokenizer",
        ) from error
    return LibraryTokenizer(own)


def _vocabulary(path: Path) -> Tokenizer:
    with naming(str(path)):
        if path.stat().st_size > _LARGEST:
            raise InputError(f"takes more than {_LARGEST:,} bytes")
        try:
            entries = path.read_text(encoding="utf-8").splitlines()
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
