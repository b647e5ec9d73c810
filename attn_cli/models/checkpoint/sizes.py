"""Size: a width with the words of the configuration that it comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """A number of features, and how it follows from fields: 64, "num_attention_heads · head_dim".

    `field` is the one to look at where the number is wrong.
    """

    value: int
    words: str
    field: str

    def __mul__(self, other: Size) -> Size:
        """The width of `self` heads of `other` features each.

        A head that is the hidden size cut evenly gives the hidden size back, in words too.
        """
        whole, cut, by = other.words.partition(" / ")
        words = whole if cut and by == self.words else f"{self.words} · {grouped(other.words)}"
        return Size(self.value * other.value, words, self.field)

    def __add__(self, other: Size) -> Size:
        return Size(self.value + other.value, f"{self.words} + {other.words}", self.field)


def twice(size: Size) -> Size:
    """Two of a width, side by side."""
    return Size(2 * size.value, f"2 · {grouped(size.words)}", size.field)


def grouped(words: str) -> str:
    """`words` in parentheses where they are a sum or a quotient."""
    return f"({words})" if "+" in words or "/" in words else words
