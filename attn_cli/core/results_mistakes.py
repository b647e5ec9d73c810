"""Diagnosis: which named mistakes explain stages that do not follow from those before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attn_cli.core.results_impl import Alternative, FoundMistake


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What of the catalogue explains stages that do not follow.

    `alternatives` fit as well as one of `mistakes`. `unexplained` are stages that nothing explains;
    `tried` counts the mistakes, and `whole` is False where the search was cut short.
    """

    mistakes: tuple[FoundMistake, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    unexplained: tuple[str, ...] = ()
    tried: int = 0
    whole: bool = True

    def to_dict(self) -> dict[str, Any]:
        return {
            "mistakes": [mistake.to_dict() for mistake in self.mistakes],
            "alternatives": [other.to_dict() for other in self.alternatives],
            "unexplained": list(self.unexplained),
            "tried": self.tried,
            "searched_all": self.whole,
        }

    @property
    def words(self) -> str:
        """The mistakes in a sentence, each with its code; "" where none is named."""
        named = [f"{mistake.title} ({mistake.code})" for mistake in self.mistakes]
        fits = ", or what stands above" if self.alternatives else ""
        return " and ".join(named) + (fits if named else "")
