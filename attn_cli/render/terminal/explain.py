"""The screen of `attn explain`: a row of the output, worked out like a page of a textbook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rich.text import Text

from attn_cli.core.decimals import text
from attn_cli.core.explanation import Explanation, Step, limited
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import findings
from attn_cli.render.terminal.header import header
from attn_cli.render.terminal.names import Names, names
from attn_cli.render.terminal.numbers import WARN
from attn_cli.render.terminal.paper.keys import Keys, keys
from attn_cli.render.terminal.paper.products import Wording, products
from attn_cli.render.terminal.paper.vectors import Row, turned, vectors
from attn_cli.render.terminal.prose import counted, hanging

LONGEST_TOKEN = 16
HIDDEN_NAMED = 12  # of more hidden keys the indices are told as ranges
Block = list[Text]


def explain_screen(result: Explanation, screen: Screen) -> str:
    """The whole page as text."""
    page = Page(result, names(result, screen))
    parts = [header(result, screen), Text(), page.title()]
    for block in page.blocks():
        parts += [Text(), *block]
    return screen.render([*parts, Text(), *findings(result.findings, result.fine, screen)])


@dataclass(frozen=True, slots=True)
class Page:
    """The blocks of one explanation: each has a heading and one idea."""

    result: Explanation
    names: Names

    @property
    def screen(self) -> Screen:
        return self.names.screen

    def title(self) -> Text:
        """Which row it is, and how many digits its numbers have."""
        result, digits = self.result, self.result.digits
        token = self.names.token("query", result.item, result.query, LONGEST_TOKEN)
        where = f"layer {result.layer}, " if result.input.kind == "model" else ""
        where += f"item {result.item}, " if result.input.batch > 1 else ""
        row = f"{where}query {result.query}"
        if digits.carried == digits.output:
            how = f"{digits.carried} digits after the point"
        else:
            how = f"digits after the point: {digits.carried} carried, {digits.weights} in the "
            how += f"weights, {digits.output} in the output"
        return self._titled(f"{row} {token}".rstrip(), f"{how}; a shorter number is exact")

    def blocks(self) -> Iterator[Block]:
        shared = {step.stage: step for step in self.result.steps if step.head is None}
        if self.result.input.kind == "model":
            x = Row("x", shared["x"].results)
            most = limited(len(x.numbers), self.result.terms)
            yield [self._heading(shared["x"]), *vectors([x], self.screen, most=most)]
        if "x_positions" in shared:
            yield [self._heading(shared["x_positions"]), *self._positions(shared["x_positions"])]
        for head in self.result.heads:
            mine = [step for step in self.result.steps if step.head == head]
            steps = {step.stage: step for step in mine if step.operation != "hide"}
            if self.result.settings.heads > 1:
                yield [self.screen.text(f"head {head}", "bold underline")]
            hidden = next((step for step in mine if step.operation == "hide"), None)
            yield from self._head(steps, hidden)
        yield from self._ending(shared)

    def _titled(self, title: str, words: str) -> Text:
        """A heading and quiet words behind it."""
        both = (Text(title, "bold"), self.screen.text(f"  {words}", "dim"))
        return hanging(Text.assemble(*both), self.screen, indent=2)

    def _heading(self, step: Step, more: str = "") -> Text:
        return self._titled(step.stage, f"{step.formula}{more}")

    def _positions(self, step: Step) -> Iterator[Text]:
        rows = [
            Row("x", [line.terms[0].a for line in step.lines]),
            Row("+ position", [line.terms[1].a for line in step.lines]),
            Row("x_positions", step.results, "bold"),
        ]
        yield from vectors(rows, self.screen, most=limited(len(step.lines), self.result.terms))

    def _head(self, steps: Mapping[str, Step], hidden: Step | None) -> Iterator[Block]:
        for name in ("q", "k", "v"):
            if name in steps and steps[name].operation == "dot":
                yield list(self._projection(steps[name]))
        if "q_rotated" in steps:
            yield [self._turning(steps), *turned(steps, self.screen)]
        if hidden is not None:
            yield [self._hidden(hidden, empty="weights" not in steps)]
        if "weights" in steps:
            yield [self._heading(steps["scores"], ", key by key"), *self._scores(steps["scores"])]
            shown = Keys(steps, self.result.item, self.names)
            yield [self._softmax_heading(shown), *keys(shown)]
        yield list(self._context(steps["context"]))

    def _projection(self, step: Step) -> Iterator[Text]:
        vector, matrix = step.names
        example = step.key is not None
        yield self._heading(step, self._example(step) if step.key is not None else "")
        wording = Wording(
            a=vector,
            product=f"{vector} · {matrix}",
            line=lambda line: matrix if example else f"{matrix} → {step.stage} {line.label}",
            at=str,
            corner="feature",
        )
        yield from products(step, self.result.terms, wording, self.screen)
        yield from self._same_way(step)

    def _example(self, step: Step) -> str:
        feature = f"feature {step.lines[0].label} of {self._key(step.key)}"
        return f", here {feature}; all others the same way"

    def _turning(self, steps: Mapping[str, Step]) -> Text:
        position = steps["angle"].lines[0].terms[0]
        assert position.b is not None
        angle = steps["angle"].formula.replace("position", text(position.a))
        return self._heading(
            steps["q_rotated"], f"; angle = {angle.replace('base', text(position.b))}"
        )

    def _scores(self, step: Step) -> Iterator[Text]:
        q, k = step.names
        wording = Wording(
            q, step.formula, lambda line: f"{k} {self._key(line.index)}", str, "feature"
        )
        return products(step, self.result.terms, wording, self.screen)

    def _context(self, step: Step) -> Iterator[Text]:
        yield self._heading(step, ", feature by feature" if step.operation == "dot" else "")
        if step.operation == "dot":
            wording = Wording(
                "weights", "weights · v", lambda line: f"v feature {line.label}", self._key, "key"
            )
            yield from products(step, self.result.terms, wording, self.screen)
            yield from self._same_way(step)
        else:
            yield from vectors([Row("context", step.results, "bold")], self.screen)

    def _softmax_heading(self, shown: Keys) -> Text:
        made = [f"{step.stage} = {step.formula}" for step in shown.scores[1:]]
        made.append("weights = exp ÷ Σ exp")
        return self._titled("weights", ", ".join(made))

    def _hidden(self, step: Step, *, empty: bool) -> Text:
        """Which keys the mask hides, by name where they are few."""
        mask = self.result.settings.mask or "the mask"
        count, of = len(step.hidden), self.result.input.keys
        if count <= HIDDEN_NAMED:
            named = ", ".join(self._key(key) for key in step.hidden)
        else:
            named = f"keys {ranges(step.hidden)}"
        heading = self._titled("masked", f"{mask} hides {count:,} of {counted(of, 'key')}: {named}")
        if empty:
            none = "this row sees no key: its weights are 0, and so is its context"
            heading.append("\n").append_text(self.screen.text(none, WARN))
        return heading

    def _ending(self, shared: Mapping[str, Step]) -> Iterator[Block]:
        """The output; of q, k and v that of each head."""
        if "output" not in shared:
            outputs = [step for step in self.result.steps if step.stage == "output"]
            several = self.result.settings.heads > 1
            rows = [
                Row(f"head {step.head}" if several else "output", step.results, "bold")
                for step in outputs
            ]
            yield [self._heading(outputs[0]), *vectors(rows, self.screen)]
            return
        output, merged = shared["output"], shared["merged"]
        alone = self.result.settings.heads == 1
        if output.operation == "dot":
            if not alone:
                row = Row("merged", merged.results)
                yield [self._merging("merged"), *vectors([row], self.screen)]
            yield list(self._projected_output(output, "context" if alone else "merged"))
        else:
            row = Row("output", output.results, "bold")
            yield [self._merging("output"), *vectors([row], self.screen)]

    def _merging(self, name: str) -> Text:
        """What the heads make side by side."""
        heads, shown = self.result.settings.heads, self.result.heads
        how = "= context" if heads == 1 else "heads side by side"
        if len(shown) < heads:
            how += "; those not written out as the engine made them"
        return self._titled(name, how)

    def _projected_output(self, step: Step, vector: str) -> Iterator[Text]:
        yield self._heading(replace(step, formula=step.formula.replace("merged", vector)))
        wording = Wording(
            vector, f"{vector} · W_o", lambda line: f"W_o → output {line.label}", str, "feature"
        )
        yield from products(step, self.result.terms, wording, self.screen)
        if any(not line.terms for line in step.lines):
            yield from self._same_way(step)
            yield Text()
            yield from vectors([Row("output", step.results, "bold")], self.screen)

    def _same_way(self, step: Step) -> Iterator[Text]:
        others = sum(not line.terms for line in step.lines)
        if others:
            yield self.screen.text(f"{counted(others, 'other feature')} the same way", "dim")

    def _key(self, key: int | None) -> str:
        assert key is not None
        return self.names.along("key", self.result.item, key, LONGEST_TOKEN)


def ranges(indices: list[int] | tuple[int, ...]) -> str:
    """Indices in order, neighbours as ranges.

    >>> ranges([0, 3, 4, 5, 9])
    '0, 3–5, 9'
    """
    parts: list[list[int]] = []
    for index in indices:
        if parts and index == parts[-1][-1] + 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    return ", ".join(f"{p[0]}–{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)
