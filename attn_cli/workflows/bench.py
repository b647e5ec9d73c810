"""bench: what each engine costs, in time and memory, and how that grows with the length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from attn_cli.core.growth import fitted
from attn_cli.core.peak_memory import RESOLUTION
from attn_cli.core.results_bench import (
    REFERENCE,
    BenchGrowth,
    BenchResult,
    BenchRow,
    BenchSettings,
)
from attn_cli.core.timing import in_turn, ratio
from attn_cli.errors import UnsupportedError
from attn_cli.workflows.bench_findings import findings
from attn_cli.workflows.bench_options import BenchOptions, check
from attn_cli.workflows.bench_process import BenchProcess

Progress = Callable[[str], None]


@dataclass(slots=True)
class Cell:
    """One engine at one length while it is measured."""

    runs: list[float] = field(default_factory=list)
    peak: int | None = None
    why: Any = None
    reason: str = ""


def bench(options: BenchOptions, *, progress: Progress | None = None) -> BenchResult:
    """Times and peaks of every engine at every length; the engines take turns.

    Interrupted, it gives what was measured until then, marked as not complete; KeyboardInterrupt
    where that is nothing. InputError for what
    makes no sense, UnsupportedError where the device is not there or no engine can do it.
    """
    check(options)
    session = Session(options, progress or (lambda _: None))
    try:
        with session.processes():
            for length in options.lengths:
                session.measure(length)
    except KeyboardInterrupt:
        session.interrupted()
    return session.result()


class Session:
    """The processes of one bench and what was learnt from them."""

    def __init__(self, options: BenchOptions, progress: Progress) -> None:
        self.options, self.progress = options, progress
        self.open: dict[str, BenchProcess] = {}
        self.facts: dict[str, Any] = {}
        self.cells: dict[tuple[int, str], Cell] = {}
        self.words: dict[str, str] = {}  # what each engine computes
        self.kernels: dict[str, None] = {}
        self.length = 0  # that is being measured
        self.complete = True

    @contextmanager
    def processes(self) -> Iterator[None]:
        """Starts one for each engine, the reference first, and ends them all.

        The others get as many threads as PyTorch takes there.
        """
        try:
            self.progress("starting PyTorch")
            self.facts = self._started(REFERENCE, self.options.threads)
            for name in self.options.engines:
                if name not in self.open:
                    self._open(name, self.facts["threads"])
            for name in self.options.engines:
                self._know(name)
            yield
        finally:
            for process in self.open.values():
                process.close()

    def _open(self, name: str, threads: int | None) -> BenchProcess:
        self.open[name] = BenchProcess(name, self.options, threads=threads)
        return self.open[name]

    def _started(self, name: str, threads: int | None) -> dict[str, Any]:
        """Versions, threads and device, as the process of the reference has them."""
        answer = self._open(name, threads).ask("facts")
        if "ok" not in answer:
            raise UnsupportedError(answer["reason"], hint=answer.get("hint", ""))
        facts: dict[str, Any] = answer["ok"]
        return facts

    def _know(self, name: str) -> None:
        answer = self.open[name].ask("know")
        self.words[name] = answer["ok"]["computes"] if "ok" in answer else "unknown"

    def measure(self, length: int) -> None:
        """All engines at one length: numbers made, warmed up, then timed in turn."""
        self.length = length
        cells = {name: Cell() for name in self.options.engines}
        self.cells |= {(length, name): cell for name, cell in cells.items()}
        for place, name in enumerate(cells):
            self._prepare(name, cells[name], length, processes=len(cells) - place)
        for name, cell in cells.items():
            self._warm(name, cell)
        calls = {name: self._call(name, cell) for name, cell in cells.items() if not cell.why}
        for name, seconds in in_turn(calls, rounds=self.options.repeats):
            cells[name].runs.append(seconds)

    def _prepare(self, name: str, cell: Cell, length: int, *, processes: int) -> None:
        process = self.open[name]
        if process.over is not None:
            cell.why = process.over["why"]
            cell.reason = "not tried: a shorter length ended its process"
            return
        answer = self._asked(cell, name, "prepare", length=length, processes=processes)
        if answer is not None and answer["kernel"] and name == REFERENCE:
            self.kernels[answer["kernel"]] = None

    def _warm(self, name: str, cell: Cell) -> None:
        """A run whose memory is measured, and before the first one of all one that is not."""
        process, limit = self.open[name], self.options.timeout
        if not cell.why and not process.warmed:
            process.warmed = True
            self._asked(cell, name, "warm", limit=limit)
        if not cell.why:
            answer = self._asked(cell, name, "peak", limit=limit)
            cell.peak = None if answer is None else answer["peak_bytes"]

    def _call(self, name: str, cell: Cell) -> Callable[[], float | None]:
        def call() -> float | None:
            answer = self._asked(cell, name, "time", limit=self.options.timeout)
            return None if answer is None else float(answer["seconds"])

        return call

    def _asked(self, cell: Cell, name: str, op: str, **fields: Any) -> dict[str, Any] | None:
        """What the process answers; None where it does not, and the cell says why."""
        words = {"prepare": "making numbers", "warm": "warming up", "peak": "measuring memory"}
        run = words.get(op) or f"run {len(cell.runs) + 1} of {self.options.repeats}"
        self.progress(f"{self.length:,} tokens: {name}, {run}")
        answer = self.open[name].ask(op, **fields)
        if "ok" in answer:
            return answer["ok"] or {}
        cell.why, cell.reason = answer["why"], answer["reason"]
        return None

    def interrupted(self) -> None:
        """Marks what is missing."""
        self.complete = False
        for cell in self.cells.values():
            if not cell.why and len(cell.runs) < self.options.repeats:
                cell.why, cell.reason = "interrupted", "interrupted"

    def result(self) -> BenchResult:
        """What was measured; UnsupportedError where nothing was, and nobody interrupted it."""
        rows = tuple(self._rows())
        if not any(row.runs_s for row in rows):
            if not self.complete:
                raise KeyboardInterrupt
            reasons = dict.fromkeys(row.reason for row in rows if row.reason)
            raise UnsupportedError(f"nothing could be measured: {'; '.join(reasons)}")
        result = BenchResult(
            settings=_settings(self.options),
            rows=rows,
            growth=tuple(_growth(rows, self.options)),
            findings=(),
            complete=self.complete,
            **self.facts,
        )
        return replace(result, findings=tuple(findings(result, tuple(self.kernels))))

    def _rows(self) -> Iterator[BenchRow]:
        for (length, name), cell in self.cells.items():
            reference = self.cells[length, REFERENCE].runs
            yield BenchRow(
                engine=name,
                length=length,
                computes=self.words[name],
                runs_s=tuple(cell.runs),
                peak_bytes=cell.peak,
                ratio=ratio(cell.runs, reference),
                why=cell.why,
                reason=cell.reason,
            )


def _growth(rows: tuple[BenchRow, ...], options: BenchOptions) -> Iterator[BenchGrowth]:
    for name in options.engines:
        own = [row for row in rows if row.engine == name]
        lengths = [row.length for row in own]
        peaks = [float("nan") if row.peak_bytes is None else row.peak_bytes for row in own]
        time = fitted(lengths, [row.median_s for row in own])
        memory = fitted(lengths, peaks, least=RESOLUTION)
        yield BenchGrowth(name, "time", time.exponent, time.points, time.reason)
        yield BenchGrowth(name, "memory", memory.exponent, memory.points, memory.reason)


def _settings(options: BenchOptions) -> BenchSettings:
    return BenchSettings(
        engines=options.engines,
        lengths=options.lengths,
        heads=options.heads,
        kv_heads=options.shared_heads,
        d_k=options.d_k,
        d_v=options.value_width,
        mask=None if options.mask is None else str(options.mask),
        dtype=options.dtype,
        device=options.device,
        repeats=options.repeats,
        timeout_s=options.timeout,
        seed=options.seed,
    )
