"""What is measured, what is refused beforehand, and what becomes of an engine that dies."""

from __future__ import annotations

import math
import os
import signal
from typing import Any, ClassVar

import numpy as np
import pytest

from attn_cli.core.engine import Ask
from attn_cli.core.results_bench import BenchResult
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError, UnsupportedError
from attn_cli.workflows import bench_subject
from attn_cli.workflows.bench import bench
from attn_cli.workflows.bench_child import Measuring
from attn_cli.workflows.bench_options import (
    BenchOptions,
    check,
    from_plain,
    parse_engines,
    parse_lengths,
)
from attn_cli.workflows.bench_process import BenchProcess, _how_it_ended
from attn_cli.workflows.bench_subject import TooLarge, computes, prepared


def options(**changed: Any) -> BenchOptions:
    tiny: dict[str, Any] = {
        "engines": ("sdpa", "numpy"),
        "lengths": (8, 16, 32),
        "heads": 2,
        "d_k": 4,
        "repeats": 2,
        "threads": 1,
    }
    return BenchOptions(**(tiny | changed))


def context(subject: bench_subject.Subject) -> Any:
    result: Any = subject.run()
    return result["context"] if hasattr(result, "stages") else result.double().numpy()


@pytest.mark.parametrize("masks", [(), ("causal",), ("window(3)", "causal"), ("random(2)",)])
@pytest.mark.parametrize("shape", [{}, {"kv_heads": 1}, {"d_v": 6}], ids=str)
def test_all_engines_are_measured_on_the_same_numbers(
    masks: tuple[str, ...], shape: dict[str, int]
) -> None:
    asked = options(masks=masks, dtype="float64", **shape)
    right = context(prepared("numpy", asked, 16, processes=1))
    for name in ("sdpa", "torch"):
        subject = prepared(name, asked, 16, processes=1)
        np.testing.assert_allclose(context(subject), right, rtol=0, atol=1e-12)


def test_the_reference_is_the_bare_call_and_says_its_kernel() -> None:
    assert prepared("sdpa", options(), 8, processes=1).kernel == "flash"
    assert prepared("sdpa", options(d_v=6), 8, processes=1).kernel == "math"
    assert prepared("sdpa:math", options(), 8, processes=1).kernel == "math"
    assert prepared("numpy", options(), 8, processes=1).kernel is None


def test_each_engine_says_what_it_computes() -> None:
    words = {name: computes(name, options()) for name in ("sdpa", "sdpa:math", "numpy", "torch")}
    assert words == {
        "sdpa": "the output alone",
        "sdpa:math": "the output alone",
        "numpy": "every stage, all statistics",
        "torch": "every stage, all statistics",
    }
    assert computes("mha", options()) == "weights, output, all statistics"
    assert computes("flex", options()) == "the output, lse"
    assert computes("tiled", options()) == "the output, all statistics"


@pytest.mark.parametrize("name", ["numpy", "torch", "tiled", "mha"])
def test_statistics_that_it_names_are_computed(name: str) -> None:
    trace: Any = prepared(name, options(), 8, processes=1).run()
    assert "entropy" in trace.stats


def test_what_an_engine_does_not_do_is_refused_with_its_reason() -> None:
    with pytest.raises(UnsupportedError, match="8 query heads on 2"):
        prepared("mha", options(heads=8, kv_heads=2), 8, processes=1)
    with pytest.raises(UnsupportedError, match="bfloat16"):
        prepared("numpy", options(dtype="bfloat16"), 8, processes=1)


def test_what_does_not_fit_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench_subject, "_drawn", lambda *_: pytest.fail("numbers were made"))
    with pytest.raises(TooLarge, match=r"needs about .* TiB of memory, and .* free"):
        prepared("numpy", options(), 1 << 20, processes=1)
    monkeypatch.setattr(bench_subject, "free_bytes", lambda _: 1 << 20)
    length, each = 2000, 3 * 2 * 2000 * 4 * 4
    with pytest.raises(TooLarge):  # a mask is a matrix, too, which is_causal is not
        prepared("sdpa", options(masks=("window(4)",)), length, processes=1)
    with pytest.raises(TooLarge):  # the numbers that other processes hold count
        prepared("sdpa", options(), length, processes=(1 << 20) // each + 1)
    monkeypatch.undo()
    assert prepared("sdpa", options(masks=("causal",)), length, processes=1).kernel == "flash"


class Scripted:
    """A process that answers at once: engine and length decide how long a run takes.

    `ends` maps (engine, length, op) to how it ends there; `refuses` to why it does not do it.
    """

    asked: ClassVar[list[tuple[str, str]]] = []
    left_open: ClassVar[set[str]] = set()
    ends: ClassVar[dict[tuple[str, int, str], dict[str, str]]] = {}
    refuses: ClassVar[dict[tuple[str, int], dict[str, str]]] = {}
    interrupts_after: ClassVar[int] = 1_000_000

    def __init__(self, engine: str, options: BenchOptions, *, threads: int | None) -> None:
        self.engine, self.length, self.warmed = engine, 0, False
        self.over: dict[str, str] | None = None
        self.left_open.add(engine)

    def ask(self, op: str, *, limit: float = 0.0, **fields: int) -> dict[str, Any]:
        self.asked.append((op, self.engine))
        if len(self.asked) > self.interrupts_after:
            raise KeyboardInterrupt
        self.length = fields.get("length", self.length)
        if (ended := self.ends.get((self.engine, self.length, op))) is not None:
            self.over = ended
            return ended
        if op == "prepare" and (refused := self.refuses.get((self.engine, self.length))):
            return refused
        power = {"sdpa": 1, "tiled": 1}.get(self.engine, 2)
        answers: dict[str, dict[str, Any]] = {
            "know": {"computes": f"what {self.engine} does"},
            "facts": {"threads": 3, "versions": {}, "device_name": None, "memory": "by hand"},
            "prepare": {"kernel": "flash" if self.engine == "sdpa" else None},
            "warm": {},
            "peak": {"peak_bytes": (self.length**power) << 20},
            "time": {"seconds": float(self.length**power)},
        }
        return {"ok": answers[op]}

    def close(self) -> None:
        self.left_open.discard(self.engine)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> type[Scripted]:
    class Fresh(Scripted):
        asked: ClassVar[list[tuple[str, str]]] = []
        left_open: ClassVar[set[str]] = set()
        ends: ClassVar[dict[tuple[str, int, str], dict[str, str]]] = {}
        refuses: ClassVar[dict[tuple[str, int], dict[str, str]]] = {}

    monkeypatch.setattr("attn_cli.workflows.bench.BenchProcess", Fresh)
    return Fresh


def codes(result: BenchResult) -> list[str]:
    return [finding.code for finding in result.findings if finding.severity == "warning"]


def test_engines_take_turns_and_every_length_is_warmed_up(scripted: type[Scripted]) -> None:
    said: list[str] = []
    result = bench(options(), progress=said.append)
    assert [(row.length, row.engine) for row in result.rows] == [
        (n, name) for n in (8, 16, 32) for name in ("sdpa", "numpy")
    ]
    ops = [op for op, _ in scripted.asked]
    assert ops.count("warm") == 2  # once an engine
    assert ops.count("peak") == 6
    assert scripted.asked[-4:] == [("time", "sdpa"), ("time", "numpy")] * 2
    assert scripted.left_open == set()
    assert said[0] == "starting PyTorch"
    assert "32 tokens: numpy, run 2 of 2" in said


def test_ratios_and_exponents_are_those_of_the_runs(scripted: type[Scripted]) -> None:
    result = bench(options())
    assert [row.ratio for row in result.rows] == [1.0, 8.0, 1.0, 16.0, 1.0, 32.0]
    assert result.complete
    assert (result.threads, codes(result)) == (3, [])
    grown = {(g.engine, g.quantity): g.exponent for g in result.growth}
    for quantity in ("time", "memory"):
        np.testing.assert_allclose(grown["sdpa", quantity], 1, rtol=1e-12, atol=0)
        np.testing.assert_allclose(grown["numpy", quantity], 2, rtol=1e-12, atol=0)


def test_an_engine_that_dies_is_left_out_from_there_on(scripted: type[Scripted]) -> None:
    scripted.ends["numpy", 16, "time"] = {"why": "died", "reason": "its process ended"}
    result = bench(options())
    rows = [row for row in result.rows if row.engine == "numpy"]
    assert [row.why for row in rows] == [None, "died", "died"]
    assert rows[1].peak_bytes is not None
    assert rows[2].reason == "not tried: a shorter length ended its process"
    assert all(row.why is None for row in result.rows if row.engine == "sdpa")
    assert codes(result) == ["process-ended", "process-ended"]
    assert [g.points for g in result.growth] == [3, 3, 1, 2]


def test_without_the_reference_there_are_no_ratios(scripted: type[Scripted]) -> None:
    for length in (8, 16, 32):
        scripted.refuses["sdpa", length] = {"why": "memory", "reason": "too large"}
    result = bench(options())
    assert all(math.isnan(row.ratio) for row in result.rows)
    assert codes(result) == ["too-large"]


def test_what_was_measured_before_an_interruption_is_the_result(scripted: type[Scripted]) -> None:
    scripted.interrupts_after = 12
    result = bench(options(repeats=5))
    assert not result.complete
    assert scripted.left_open == set()
    first = result.rows[:2]
    assert [len(row.runs_s) for row in first] == [2, 1]
    assert {row.why for row in first} == {"interrupted"}
    assert codes(result) == ["interrupted"]
    assert result.findings[-1].message == (
        "interrupted: sdpa at 8 after 2 of 5 runs, numpy at 8 after 1 of 5 runs; not begun: 16, 32"
    )


def test_an_interruption_before_anything_was_measured_stays_one(scripted: type[Scripted]) -> None:
    scripted.interrupts_after = 4
    with pytest.raises(KeyboardInterrupt):
        bench(options())
    assert scripted.left_open == set()


def test_nothing_measured_is_no_result(scripted: type[Scripted]) -> None:
    for name in ("sdpa", "numpy"):
        scripted.refuses[name, 8] = {"why": "unsupported", "reason": f"{name} does not"}
    with pytest.raises(UnsupportedError, match="sdpa does not; numpy does not"):
        bench(options(lengths=(8,)))


@pytest.fixture
def process() -> Any:
    started = BenchProcess("numpy", options(), threads=1)
    yield started
    started.close()


def test_a_process_that_is_killed_is_an_answer(process: BenchProcess) -> None:
    assert process.ask("know") == {"ok": {"computes": "every stage, all statistics"}}
    os.kill(process.process.pid, signal.SIGKILL)
    answer = process.ask("prepare", length=8, processes=1)
    assert answer["why"] == "died"
    assert "SIGKILL" in answer["reason"]
    assert process.ask("time") == answer


def test_a_run_that_takes_too_long_ends_its_process(process: BenchProcess) -> None:
    assert "ok" in process.ask("prepare", length=2048, processes=1)
    assert process.ask("warm", limit=0.001)["why"] == "time"
    assert process.process.poll() is not None


def test_how_a_process_ended_is_told() -> None:
    assert _how_it_ended(3) == "its process ended with code 3"
    assert _how_it_ended(-signal.SIGSEGV) == "its process was ended by SIGSEGV"
    assert _how_it_ended(-signal.SIGKILL).endswith("as where memory runs out")


def test_what_an_engine_raises_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    measuring = Measuring("numpy", options())
    assert "ok" in measuring.handle({"op": "prepare", "length": 8, "processes": 1})

    def raising(error: Exception) -> Any:
        def run(inputs: object, ask: Ask) -> None:
            raise error

        return run

    for error, why in (
        (MemoryError(), "memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "memory"),
        (ValueError("odd\nand long"), "failed"),
        (UnsupportedError("no"), "unsupported"),
    ):
        monkeypatch.setattr(type(ENGINES["numpy"]), "run", staticmethod(raising(error)))
        assert measuring.handle({"op": "time"})["why"] == why


def test_short_runs_are_repeated_until_they_can_be_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ran = [0.0], [0]

    def run() -> None:
        ran[0] += 1
        clock[0] += 0.002

    monkeypatch.setattr("attn_cli.workflows.bench_child.perf_counter", lambda: clock[0])
    measuring = Measuring("numpy", options())
    measuring.subject = bench_subject.Subject(run, None)
    measuring.handle({"op": "peak"})
    assert measuring.calls == 5  # 10 ms
    ran[0] = 0
    answer = measuring.handle({"op": "time"})
    np.testing.assert_allclose(answer["ok"]["seconds"], 0.002, rtol=1e-9, atol=0)
    assert ran[0] == 6  # the first of them wakes up and is not timed


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"heads": 0}, "--heads is 0"),
        ({"heads": 8, "kv_heads": 3}, "a multiple"),
        ({"d_k": 1 << 20}, "--d-k is"),
        ({"repeats": 0}, "--repeats is 0"),
        ({"threads": 0}, "--threads is 0"),
        ({"seed": -1}, "--seed is -1"),
        ({"timeout": math.nan}, "--timeout is nan"),
        ({"timeout": 0.0}, "--timeout is 0"),
        ({"dtype": "float8"}, "no precision 'float8'"),
        ({"masks": ("caussal",)}, "no mask 'caussal'"),
        ({"masks": ("documents(8)",)}, "at length 16"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_process_starts(
    changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        check(options(**changed))


def test_lists_are_read() -> None:
    assert parse_lengths("2k, 1K,007,1m") == (7, 1024, 2048, 1 << 20)
    assert parse_engines("torch") == ("sdpa", "torch")
    assert parse_engines("torch,sdpa") == ("sdpa", "torch")


@pytest.mark.parametrize("text", ["", "abc", "-1", "0", "1.5k", "1k,,2k", "17m", "9" * 30, "２"])
def test_wrong_lengths_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--lengths"):
        parse_lengths(text)


def test_too_many_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="at most 32"):
        parse_lengths(",".join(map(str, range(1, 40))))


def test_options_survive_the_way_to_the_process() -> None:
    import json
    from dataclasses import asdict

    asked = options(masks=("causal",), d_v=3)
    assert from_plain(json.loads(json.dumps(asdict(asked)))) == asked
