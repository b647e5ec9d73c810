"""EngineSubject: an engine of the registry as a subject of the suite."""

from __future__ import annotations

from dataclasses import dataclass

from attn_cli.checks.edges.case import Answer
from attn_cli.core.engine import Ask, require
from attn_cli.core.inputs import AttentionInputs
from attn_cli.engines import ENGINES


@dataclass(frozen=True, slots=True)
class EngineSubject:
    """The engine called `name`; what it cannot do, it refuses by UnsupportedError."""

    name: str
    device: str = "cpu"

    def attend(self, inputs: AttentionInputs, dtype: str) -> Answer:
        """The engine's context, and its weights where it shows them."""
        engine = ENGINES[self.name]
        keep = frozenset({"context", "weights"}) & engine.can.shows(inputs)
        ask = Ask(keep=keep, dtype=dtype, device=self.device)
        require(engine, inputs, ask, others=lambda: [ENGINES[other] for other in ENGINES])
        trace = engine.run(inputs, ask)
        return Answer(trace["context"], trace["weights"] if "weights" in trace.stages else None)
