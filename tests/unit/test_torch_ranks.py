"""Ranks: nobody waits for a process that has failed or says nothing."""

from __future__ import annotations

import pytest

from attn_cli.core.ranks import Place, place
from attn_cli.errors import AttnError
from attn_cli.torch_ranks import Lost, TorchRanks


class Store:
    """A store as torch.distributed has them, in one process."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def set(self, key: str, value: str) -> None:
        self.held[key] = value.encode()

    def get(self, key: str) -> bytes:
        return self.held[key]

    def check(self, keys: list[str]) -> bool:
        return all(key in self.held for key in keys)


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> tuple[TorchRanks, TorchRanks]:
    """Both processes of a run; a second passes with every look."""
    now = [0.0]

    def wait(_: float) -> None:
        now[0] += 1

    monkeypatch.setattr("time.sleep", wait)
    store = Store()
    first, second = (TorchRanks(Place(r, 2, r), store, "cpu", lambda: now[0]) for r in (0, 1))
    return first, second


def test_rows_are_added_up(pair: tuple[TorchRanks, TorchRanks]) -> None:
    first, second = pair
    assert second.beat(30) == 30
    assert first.beat(12) == 42


def test_a_failure_is_told_with_its_rank(pair: tuple[TorchRanks, TorchRanks]) -> None:
    first, second = pair
    second.failed("no such file", "look again")
    with pytest.raises(AttnError) as lost:
        first.collect(lambda rank: [], {})
    assert (lost.value.message, lost.value.hint) == ("rank 1: no such file", "look again")


def test_who_says_nothing_is_lost(pair: tuple[TorchRanks, TorchRanks]) -> None:
    with pytest.raises(Lost, match="rank 1 has said nothing for 120 s"):
        pair[0].collect(lambda rank: [], {})


def test_where_the_first_has_given_up_the_others_stop(
    pair: tuple[TorchRanks, TorchRanks],
) -> None:
    first, second = pair
    first.failed("interrupted", "")
    with pytest.raises(Lost, match="given the run up"):
        second.beat(1)
    with pytest.raises(Lost, match="given the run up"):
        second.hand_over([])


def test_torchrun_says_who_is_who(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "4")  # a cluster's own: nobody has started several
    assert place() == Place(0, 1, 0)
    for name, value in (("TORCHELASTIC_RUN_ID", "none"), ("RANK", "3"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    assert place() == Place(3, 4, 1)
    assert place().device("cuda") == "cuda:1"
    assert place().device("cpu") == "cpu"
