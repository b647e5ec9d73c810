"""The rows of a long run as a whole, on the screen: whole at every width, in ASCII too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from attn_cli.core.results import RunResult, TopKey
from attn_cli.core.results_spread import QUANTILES, Distribution, HeadSpread, Spread, Stretch
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.names import names
from attn_cli.render.terminal.spread import MOST, spread
from tests.unit.render.example import random, result
from tests.unit.render.screens import drawn, pipe, terminal

NAN = float("nan")


def head(number: int) -> HeadSpread:
    entropy = Distribution(
        rows=4096,
        quantiles={percent: percent / 100 * (number + 1) for percent in QUANTILES},
        edges=tuple(step / 3 for step in range(25)),
        counts=(0, 1, 4, *[8] * 20, 0),
    )
    far = {percent: 10.0 * percent for percent in QUANTILES}
    return HeadSpread(
        batch=0,
        head=number,
        entropy=entropy,
        distance=replace(entropy, quantiles=far, edges=tuple(range(0, 2500, 100))),
        by_position=tuple(
            Stretch(86 * n, 86 * n + 85, NAN if n == 0 else n / 47, NAN, NAN) for n in range(48)
        ),
        sinks=(TopKey(0, "0", 0.25), TopKey(1234, "1234", 0.0004)),
    )


def lines(heads: int, screen: Screen, *, bits: bool = False) -> list[str]:
    plain = result(random((1, 2, 4, 8), seed=1))
    case: RunResult = replace(plain, spread=Spread(tuple(map(head, range(heads))), ()))
    return drawn(spread(case, names(case, screen), bits=bits), screen)


def test_a_screen_whole() -> None:
    bars = " ▁▄████████████████████"
    grown = " ▁▁▁▁▁▂▂▂▂▂▂▃▃▃▃▃▃▄▄▄▄▄▄▅▅▅▅▅▅▆▆▆▆▆▆▇▇▇▇▇▇██████"
    assert lines(2, terminal(100)) == [
        "entropy/nat  least     1%    25%  median    75%    99%   most  0                  8.000",
        f"head 0       0.000  0.010  0.250   0.500  0.750  0.990  1.000  {bars}",
        f"head 1       0.000  0.020  0.500   1.000  1.500  1.980  2.000  {bars}",
        "",
        "mean distance  least    1%    25%  median    75%    99%    most  0                 2400.0",
        f"head 0           0.0  10.0  250.0   500.0  750.0  990.0  1000.0  {bars}",
        f"head 1           0.0  10.0  250.0   500.0  750.0  990.0  1000.0  {bars}",
        "",
        f"entropy/nat of 86 queries   first   query 0{'4,127':>41}    last",
        f"head 0                          –   {grown}   1.000",
        f"head 1                          –   {grown}   1.000",
        "",
        "receives most   key: share                          all others   equal share",
        "head 0          0: 25.0%     1234: 0.04%                 75.0%           25%",
        "head 1          0: 25.0%     1234: 0.04%                 75.0%           25%",
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_nothing_is_cut(width: int) -> None:
    shown = lines(2, terminal(width))
    assert max(map(cell_len, shown)) <= width
    assert all("least" in line for line in shown if line.startswith(("entropy/nat  ", "mean dist")))
    assert ("95%" in shown[0]) == (width == 200)


def test_without_bars_there_are_digits() -> None:
    shown = lines(1, terminal(100, encoding="ascii"))
    assert shown[1].endswith("   14" + "8" * 20)
    "".join(shown).encode("ascii")


def test_bits_and_pipes() -> None:
    assert lines(1, pipe(), bits=True)[1].split()[2:9] == [
        "0.000", "0.014", "0.361", "0.721", "1.082", "1.428", "1.443",
    ]  # fmt: skip


def test_more_heads_than_fit_are_counted() -> None:
    shown = lines(MOST + 3, terminal(100))
    assert shown[-1] == "3 heads more: --head and --item pick which, --json has all"


def test_a_short_run_has_no_such_part() -> None:
    plain, screen = result(random((1, 2, 4, 8), seed=1)), terminal(100)
    assert drawn(spread(plain, names(plain, screen), bits=False), screen) == []
