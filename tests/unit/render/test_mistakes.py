"""A named mistake looks alike wherever it is shown."""

from __future__ import annotations

from attn_cli.core.results_impl import Alternative, FoundMistake
from attn_cli.core.results_mistakes import Diagnosis
from attn_cli.render.terminal.mistakes import mistake, mistake_lines
from tests.unit.render.screens import drawn, pipe

FOUND = FoundMistake(
    code="scale_missing",
    title="the scores are not scaled",
    stage="scale",
    explanation="Products grow with the width.",
    evidence=("4 of 4 rows follow", "nothing else does"),
    fix="divide by the root of the width",
    note="of one head",
    line=7,
    source="scores = q @ k.T",
)
OTHER = Alternative("heads_merged", "heads are merged", "ask with one head", ("late_mask",))


def test_every_part_has_its_line() -> None:
    screen = pipe()
    assert drawn(mistake(FOUND, FOUND.evidence, screen, of="left: "), screen) == [
        "✗ left: the scores are not scaled  scale_missing",
        "  line 7  scores = q @ k.T",
        "  how   of one head",
        "  why   Products grow with the width.",
        "  seen  4 of 4 rows follow",
        "        nothing else does",
        "  fix   divide by the root of the width",
    ]


def test_a_diagnosis_shows_one_piece_of_evidence_and_the_others_that_fit() -> None:
    diagnosis = Diagnosis((FOUND,), (OTHER,), tried=3, whole=False)
    screen = pipe()
    said = "\n".join(drawn(mistake_lines(diagnosis, screen), screen))
    assert "nothing else does" not in said
    assert "or heads are merged  heads_merged + late_mask\n  to tell: ask with one head" in said
    assert said.endswith("the search was cut short after 3 named mistakes")
