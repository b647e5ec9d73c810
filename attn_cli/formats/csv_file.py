"""CSV and TSV → token vectors: one row a token, the first column may be the token itself."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attn_cli.core.findings import Finding, note
from attn_cli.errors import InputError
from attn_cli.formats.content import Content
from attn_cli.formats.names import printable, quoted
from attn_cli.formats.text_file import read_text

# A first column with one of these names holds tokens, even where all of them look like numbers.
TOKEN_NAMES = frozenset({"", "index", "label", "name", "text", "token", "tokens", "word", "words"})


@dataclass(frozen=True, slots=True)
class Row:
    """One row and the line, from 1, on which it starts: a quoted cell may span several."""

    line: int
    cells: list[str]


def read(path: Path) -> Content:
    """The unnamed float64 array "x" of a .csv (commas) or .tsv (tabs) file, and its tokens.

    The first line is a header where none of its cells is a number, or where its cells are the
    column numbers 0, 1, 2, … that pandas writes, unless all other numbers are whole too (a note
    says how it is read). The first column holds the tokens where it is called so, has no name,
    begins with a word where there is no header, or holds nothing but words. `nan`, `inf`,
    `infinity` and their signed forms are numbers; a value too large for a float64 is an error.
    Blank lines are skipped. InputError names the line (from 1) and the column.
    """
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    rows = _rows(read_text(path), separator)
    header, findings = _header(rows)
    body = rows[1:] if header is not None else rows
    if not body:
        raise InputError("has a header but no rows: there are no tokens")
    _check_widths(rows)
    has_tokens = _has_tokens(header, body)
    if has_tokens and len(body[0].cells) == 1:
        raise InputError(
            "has words in its only column and no numbers",
            hint="cells are separated by commas in .csv and by tabs in .tsv",
        )
    x = np.array([_numbers(row, header, int(has_tokens)) for row in body], np.float64)
    texts = {"tokens": [row.cells[0] for row in body]} if has_tokens else {}
    if has_tokens and header is None:
        findings += _said_of_tokens(body)
    return Content("csv", {"x": x}, {"x": "csv"}, unnamed=True, texts=texts, findings=findings)


def headers(path: Path) -> Content:
    """What `read` gives: numbers that are written out have no header, so they are read."""
    return read(path)


def _rows(text: str, separator: str) -> list[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: list[Row] = []
    start = 1
    try:
        for cells in reader:
            if len(cells) > 1 or (cells and cells[0].strip()):
                rows.append(Row(start, cells))
            if separator == "\t" and any("\t" in cell and "\n" in cell for cell in cells):
                # Two lines that each begin with a bare quote would silently become one token.
                raise csv.Error("a quoted cell runs over tabs and lines")
            start = reader.line_num + 1
    except csv.Error as error:
        quotes = 'a cell that holds a quote is quoted, and the quote doubled: "say ""hi"""'
        raise InputError(
            f"line {start} cannot be split into cells: {printable(str(error))}",
            hint="" if "limit" in str(error) else quotes,
        ) from error
    if not rows:
        raise InputError("holds no rows: there are no tokens")
    return rows


def _header(rows: list[Row]) -> tuple[list[str] | None, tuple[Finding, ...]]:
    """The names of the columns, None where the first row holds data; and the note on a guess."""
    cells = [cell.strip() for cell in rows[0].cells]
    numbered, named = _counts(cells), _counts(cells[1:]) and _number(cells[0]) is None
    if not numbered and not named:
        data = any(_number(cell) is not None for cell in cells)
        return (None if data else cells), ()
    holds = f"line {rows[0].line} holds the column numbers 0 to {cells[-1]}"
    called = named and cells[0].lower() in TOKEN_NAMES
    if called or not _all_whole(rows[1:], start=int(named)):
        return cells, (note("csv-header", f"{holds}: read as a header, not as a token's vector"),)
    if named:  # a word and whole numbers, like all other rows
        return None, ()
    why = "since all numbers are whole"
    return None, (note("csv-header", f"{holds}: read as a token's vector, {why}"),)


def _counts(cells: list[str]) -> bool:
    return bool(cells) and cells == [str(i) for i in range(len(cells))]


def _all_whole(rows: list[Row], start: int) -> bool:
    cells = (cell.strip() for row in rows for cell in row.cells[start:])
    return all(cell.lstrip("+-").isdecimal() for cell in cells)


def _said_of_tokens(body: list[Row]) -> tuple[Finding, ...]:
    """A note where a first column without a name is read as tokens, and not all are words."""
    row = next((row for row in body if not _is_word(row.cells[0])), None)
    if row is None:
        return ()
    holds = f"line {row.line} holds {quoted(row.cells[0])} there"
    return (note("csv-tokens", f"the first column is read as tokens, not numbers; {holds}"),)


def _check_widths(rows: list[Row]) -> None:
    first = rows[0]
    for row in rows:
        if len(row.cells) != len(first.cells):
            raise InputError(
                f"line {row.line} has {_cells(row)}, line {first.line} has {_cells(first)}"
            )


def _cells(row: Row) -> str:
    return f"{len(row.cells)} cell{'' if len(row.cells) == 1 else 's'}"


def _has_tokens(header: list[str] | None, body: list[Row]) -> bool:
    if header is None:
        return _is_word(body[0].cells[0])
    return header[0].lower() in TOKEN_NAMES or all(_is_word(row.cells[0]) for row in body)


def _is_word(cell: str) -> bool:
    return bool(cell.strip()) and _number(cell) is None


def _numbers(row: Row, header: list[str] | None, start: int) -> list[float]:
    values = []
    for column, cell in enumerate(row.cells[start:], start):
        value = _number(cell)
        if value is None or (math.isinf(value) and "inf" not in cell.lower()):
            raise _no_number(cell, value, row.line, column, header)
        values.append(value)
    return values


def _no_number(
    cell: str, value: float | None, line: int, column: int, header: list[str] | None
) -> InputError:
    where = f"line {line}, column {quoted(header[column]) if header else column}"
    if value is not None:
        return InputError(f"{where}: {quoted(cell)} is too large for a float64")
    if not cell.strip():
        return InputError(f"{where}: the cell is empty where a number is expected")
    hint = ""
    if ";" in cell:
        hint = "cells are separated by commas, and decimals start after a point"
    elif column == 0:
        hint = "call the first column 'token' in a header line if it holds tokens"
    return InputError(f"{where}: {quoted(cell)} stands where a number is expected", hint=hint)


def _number(cell: str) -> float | None:
    # float() also takes 1_000, which no file means.
    if "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None
