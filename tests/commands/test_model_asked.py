"""What attn model answers to --health, --flow, --sensitive, --ablate-key and --fail-if."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from attn_cli.commands.main import main
from tests.unit.models.hf.making import folder_of, made

IDS = ("7,21,33,7,60,81,4,90,12", "5,6,7,8")
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "我", "喜欢", "苹果", "1", "10", "12", "的", "a", "b"]


def asked(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    """The JSON of a look into a model."""
    assert main(["model", *arguments, "--json"]) == code
    captured = capsys.readouterr()
    assert captured.err == "" or captured.err.startswith("Wrote ")
    return json.loads(captured.out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a refusal and its hint."""
    assert main(["model", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert len(captured.err.splitlines()) <= 2
    return captured.err


@pytest.fixture
def tiny(samples: Path) -> list[str]:
    """The sample with drawn weights on nine ids."""
    return [str(samples / "tiny_gemma2"), "--random-weights", "--input-ids", IDS[0]]


@pytest.fixture
def flat(tmp_path: Path) -> list[str]:
    """A decoder with drawn weights so small that its heads look at everything alike."""
    return [folder_of(tmp_path / "flat", "llama"), "--random-weights"]


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """An encoder with drawn weights and a vocabulary of its own."""
    folder = folder_of(tmp_path / "model", "bert", vocab_size=40)
    Path(folder, "vocab.txt").write_text("\n".join(TOKENS), encoding="utf-8")
    return [folder, "--random-weights"]


def test_nothing_asked_is_null(capsys: pytest.CaptureFixture[str], tiny: list[str]) -> None:
    said = asked(capsys, *tiny)
    assert [said[name] for name in ("health", "flow", "sensitive", "ablation")] == [None] * 4
    assert said["conditions"] == []


def test_flow_has_every_head_with_the_strongest_first(
    capsys: pytest.CaptureFixture[str], tiny: list[str]
) -> None:
    flow = asked(capsys, *tiny, "--flow", "5- -> 0-2,4")["flow"]
    assert [token["position"] for token in flow["from"]] == [5, 6, 7, 8]
    assert [token["position"] for token in flow["to"]] == [0, 1, 2, 4]
    weights = [head["weight"] for head in flow["heads"]]
    assert len(weights) == 16
    assert weights == sorted(weights, reverse=True)
    assert all(head["largest"] <= head["weight"] for head in flow["heads"])
    causal = [head["chance"] for head in flow["heads"] if head["layer"] == 1]
    assert causal == pytest.approx([4 * sum(1 / n for n in (6, 7, 8, 9)) / 4] * 4)


def test_flow_of_chosen_heads(capsys: pytest.CaptureFixture[str], tiny: list[str]) -> None:
    flow = asked(capsys, *tiny, "--flow", "8 -> 4", "--layer", "1-2", "--head", "0,3")["flow"]
    assert {(head["layer"], head["head"]) for head in flow["heads"]} == {
        (layer, head) for layer in (1, 2) for head in (0, 3)
    }


def test_flow_answers_in_chinese(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(["model", *words, "--text", "我喜欢苹果", "--flow", "/我|喜/ -> /^苹果$/"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  from 2 tokens: 1:我 2:喜欢" in lines
    assert "  to 1 token: 3:苹果" in lines
    assert not any(line.startswith("normalized_entropy") for line in lines)


def test_padding_is_on_no_side(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    texts = ["--text", "我喜欢苹果", "--text", "苹果"]
    flow = asked(capsys, *words, *texts, "--flow", "0- -> /./")["flow"]
    tokens = [(token["item"], token["token"]) for token in flow["from"]]
    assert tokens == [
        *((0, word) for word in ("[CLS]", "我", "喜欢", "苹果", "[SEP]")),
        *((1, word) for word in ("[CLS]", "苹果", "[SEP]")),
    ]
    assert all(head["weight"] == pytest.approx(1, abs=1e-6) for head in flow["heads"])


@pytest.mark.parametrize(
    "flow, words",
    [
        ("5-", "cannot be read: expected FROM -> TO"),
        ("5- -> /(/", "has /(/: missing ), unterminated subpattern"),
        ("5- -> 3-1", "has the range 3-1, which ends before it begins"),
        ("5- -> 3,", "has '' in '3,': expected positions such as"),
        ("5- -> 900", "no token matches 900"),
        ("5- -> /x/", "no token matches /x/"),
        ("/a/ -> /b/ -> /c/", "can be read in 2 ways"),
        ("5- -> /a{99999999999}/", "has /a{99999999999}/: the repetition number is too large"),
    ],
)
def test_flows_that_cannot_be(
    capsys: pytest.CaptureFixture[str], tiny: list[str], flow: str, words: str
) -> None:
    assert words in refused(capsys, *tiny, "--flow", flow)


def test_a_pattern_that_never_ends(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attn_cli.workflows.model.token_patterns.SECONDS", 0.2)
    folder = folder_of(tmp_path / "model", "bert", vocab_size=40)
    long = "a" * 60 + "!"
    Path(folder, "vocab.txt").write_text("\n".join([*TOKENS, long]), encoding="utf-8")
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps([long, "b"]), encoding="utf-8")
    given = [folder, "--random-weights", "--tokens", str(tokens)]
    said = refused(capsys, *given, "--flow", "/^(a+)+$/ -> 0")
    assert "takes longer than 0.2 s on these tokens" in said


def test_sensitive_finds_a_number_that_is_cut(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    said = asked(capsys, *words, "--text", "a 1012 b 的", "--sensitive", r"\d{4}")
    marked = said["sensitive"]
    assert marked["matched"] == "text"
    assert [(token["position"], token["token"]) for token in marked["to"]] == [(2, "10"), (3, "12")]
    assert [token["position"] for token in marked["from"]] == [0, 1, 4, 5, 6]
    each = asked(capsys, *words, "--text", "a 10\n香 b", "--sensitive", "香|b")["sensitive"]
    assert [token["token"] for token in each["to"]] == ["香", "b"]
    assert "matches /x{3}/" in refused(capsys, *words, "--text", "a", "--sensitive", "x{3}")


def test_ablation_by_name_and_by_position(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    text = ["--text", "我喜欢苹果的"]
    by_name = asked(capsys, *words, *text, "--ablate-key", "苹果")["ablation"]
    by_place = asked(capsys, *words, *text, "--ablate-key", "3")["ablation"]
    assert by_name | {"asked": "3"} == by_place
    assert by_name["output"] == "logits"
    assert by_name["everywhere"]["rows"] == 5
    assert by_name["everywhere"]["moved"] > 0
    assert len(by_name["layers"]) == 2
    assert all(0 < layer["weight"] <= layer["largest"] for layer in by_name["layers"])
    assert "no token '香蕉'" in refused(capsys, *words, *text, "--ablate-key", "香蕉")
    assert "from 0 to 5" in refused(capsys, *words, *text, "--ablate-key", "6")


def test_ablation_counts_the_texts_that_have_the_token(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    alone = asked(capsys, *words, "--text", "我喜欢苹果的", "--ablate-key", "苹果")["ablation"]
    both = ["--text", "我喜欢苹果的", "--text", "a b"]
    among = asked(capsys, *words, *both, "--ablate-key", "苹果")["ablation"]
    for found, right in zip(
        (among["everywhere"], *(layer["movement"] for layer in among["layers"])),
        (alone["everywhere"], *(layer["movement"] for layer in alone["layers"])),
        strict=True,
    ):
        assert found["rows"] == right["rows"] == 5
        assert found["moved"] == pytest.approx(right["moved"], rel=1e-4)


def test_lost_numbers_meet_a_condition(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """NaN is below no number, and a model full of it is none that passes."""
    model = made(tmp_path / "built", "llama").model
    model.model.layers[1].self_attn.q_proj.weight.data[0] = float("nan")
    model.save_pretrained(tmp_path / "lost")
    given = [str(tmp_path / "lost"), "--input-ids", "5,6,7"]
    said = asked(capsys, *given, "--fail-if", "entropy<-1", code=1)
    assert said["conditions"][0]["heads"] == []
    assert said["conditions"][0]["undefined"] > 0
    (message,) = [f["message"] for f in said["findings"] if f["code"] == "fail-if"]
    assert message.startswith("entropy<-1 cannot be asked of 1 head")
    asked(capsys, *given, code=0)


def test_a_picture_has_positions(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    vision = [folder_of(tmp_path, "vit"), "--random-weights"]
    said = asked(capsys, *vision, "--ablate-key", "2", "--flow", "1- -> 0")
    assert said["ablation"]["everywhere"]["moved"] > 0
    assert [token["position"] for token in said["flow"]["to"]] == [0]
    assert "no tokens by name" in refused(capsys, *vision, "--flow", "/a/ -> 0")
    assert "have no names" in refused(capsys, *vision, "--ablate-key", "a")


def test_conditions_name_the_heads(capsys: pytest.CaptureFixture[str], tiny: list[str]) -> None:
    given = ["--fail-if", "max_weight < 2", "--fail-if", "max_weight>2"]
    said = asked(capsys, *tiny, *given, "--layer", "0", code=1)
    first, second = said["conditions"]
    assert [head["head"] for head in second["heads"]] == []
    assert sorted(head["head"] for head in first["heads"]) == [0, 1, 2, 3]
    values = [head["value"] for head in first["heads"]]
    assert values == sorted(values)
    (finding,) = [f for f in said["findings"] if f["code"] == "fail-if"]
    assert finding["message"].startswith("max_weight<2 holds for 4 heads: L0H")
    asked(capsys, *tiny, "--fail-if", "max_weight>2", code=0)


@pytest.mark.parametrize(
    "condition, words",
    [
        ("normalised_entropy<0.05", "did you mean 'normalized_entropy'?"),
        ("entropy=1", "expected a figure, one of < <= > >="),
        ("entropy<nan", "expected a figure, one of < <= > >="),
        ("entropy<x", "expected a figure, one of < <= > >="),
    ],
)
def test_conditions_that_cannot_be(
    capsys: pytest.CaptureFixture[str], tiny: list[str], condition: str, words: str
) -> None:
    assert words in refused(capsys, *tiny, "--fail-if", condition)


def test_health_of_drawn_weights_is_alarming(
    capsys: pytest.CaptureFixture[str], flat: list[str], tiny: list[str]
) -> None:
    """Heads that were never trained look at everything alike; those of the sample do not."""
    texts = [text for ids in (IDS[1], "9,8,7,6", "1,2,3,4,5") for text in ("--input-ids", ids)]
    health = asked(capsys, *flat, *texts, "--health", code=1)["health"]
    assert (health["texts"], health["needed"]) == (3, 3)
    assert {alarm["rule"] for alarm in health["alarms"]} == {"uniform"}
    assert {alarm["texts"] for alarm in health["alarms"]} == {3}
    assert [len(layer["texts"]) for layer in health["layers"]] == [3] * 2
    assert [layer["before"] for layer in health["layers"]] == [None, health["layers"][0]["path"]]
    more = asked(capsys, *flat, *texts, "--health", "--sustained", "1", code=1)["health"]
    assert more["needed"] == 1
    fine = asked(capsys, *tiny, "--health")["health"]
    assert fine["alarms"] == []
    assert [layer["before"] for layer in fine["layers"]] == [None] * 4  # windows take turns
    assert "--sustained is about the alarms" in refused(capsys, *tiny, "--sustained", "2")


def test_health_says_its_rules(capsys: pytest.CaptureFixture[str], flat: list[str]) -> None:
    assert main(["model", *flat, "--input-ids", IDS[1], "--health"]) == 1
    text = capsys.readouterr().out
    assert "alarm, and exit code 1, where one of these holds in the text" in text
    assert "KL(this ‖ before)" in text
    assert text.splitlines()[-1].endswith("alarm-uniform")


def test_what_did_not_occur_is_said(capsys: pytest.CaptureFixture[str], tiny: list[str]) -> None:
    assert main(["model", *tiny, "--health", "--fail-if", "entropy>9"]) == 0
    text = capsys.readouterr().out
    assert "no alarm · no head has entropy>9" in " ".join(text.split())


def test_prometheus_is_what_its_own_parser_reads(
    capsys: pytest.CaptureFixture[str], flat: list[str], tmp_path: Path
) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    path, given = tmp_path / "attn.prom", [*flat, "--input-ids", IDS[1]]
    said = asked(capsys, *given, "--health", "--prometheus", str(path), code=1)
    families = {f.name: f for f in parser.text_string_to_metric_families(path.read_text("utf-8"))}
    entropies = {
        (s.labels["model"], s.labels["layer"], s.labels["head"]): s.value
        for s in families["attn_head_normalized_entropy"].samples
    }
    right = {
        (flat[0], str(head["layer"]), str(head["head"])): head["normalized_entropy"]
        for head in said["heads"]
    }
    assert entropies == pytest.approx(right)
    alarms = {s.labels["rule"]: s.value for s in families["attn_alarms"].samples}
    assert alarms["uniform"] == 2
    assert alarms["collapsed"] == 0
    assert f"{path}: already exists" in refused(capsys, *given, "--prometheus", str(path))
    assert main(["model", *given, "--prometheus", str(path), "--force"]) == 0
    assert f"Wrote {path}" in capsys.readouterr().err


def test_prometheus_without_its_package(
    capsys: pytest.CaptureFixture[str], tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    said = refused(capsys, *tiny, "--prometheus", "attn.prom")
    assert "prometheus-client is not installed" in said
    assert "attn-cli[metrics]" in said


def rxnmapper() -> str:
    """The folder of an installed package's model; the test is skipped where it is not installed."""
    spec = importlib.util.find_spec("rxnmapper")
    if spec is None or spec.origin is None:
        pytest.skip("needs pip install --no-deps rxnmapper")
    name = "albert_heads_8_uspto_all_1310k"
    return str(Path(spec.origin).parent / "models" / "transformers" / name)


def test_rxnmapper_maps_atoms_to_the_reactants(capsys: pytest.CaptureFixture[str]) -> None:
    """Head 5, as RXNMapper's authors found by looking (Schwaller et al. 2021)."""
    reaction = "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F"
    atoms = r"40-54:/[A-Za-z\[]/ -> 1-38:/[A-Za-z\[]/"
    flow = asked(capsys, rxnmapper(), "--text", reaction, "--flow", atoms)["flow"]
    assert (len(flow["from"]), len(flow["to"])) == (11, 23)
    top = {(head["layer"], head["head"]) for head in flow["heads"][:8]}
    assert top == {(layer, 5) for layer in range(4, 12)}
    weights = {(head["layer"], head["head"]): head["weight"] for head in flow["heads"]}
    assert flow["heads"][0]["layer"] == 5
    assert weights[5, 5] == pytest.approx(0.786, abs=5e-4)
    assert weights[10, 5] == pytest.approx(0.740, abs=5e-4)
