"""Models with code of their own: not run unasked, run when trusted, one sentence when it fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from attn_cli.commands.main import main
from attn_cli.errors import AttnError
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.loading import load
from attn_cli.models.hf.options import LoadOptions
from tests.unit.models.hf.making import drawn

CONFIGURATION = """
from pathlib import Path
from transformers import PretrainedConfig
Path({mark!r}).write_text("run")
class OwnConfig(PretrainedConfig):
    model_type = "own"
    def __init__(self, vocab_size=50, hidden_size=16, num_attention_heads=2, **more):
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.num_attention_heads = num_attention_heads
        super().__init__(**more)
"""
MODEL = """
import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from .configuration_own import OwnConfig
print("a word on stdout")

def eager_attention_forward(module, query, key, value, attention_mask, scaling, **more):
    weights = torch.softmax(query @ key.mT * scaling + attention_mask, -1)
    return (weights @ value).transpose(1, 2).contiguous(), weights

class OwnAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.num_heads = config, config.num_attention_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)

    def forward(self, x, mask):
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
                   for t in self.qkv(x).chunk(3, -1))
        scale = q.shape[-1] ** -0.5
        {attend}
        return out.flatten(2)

class OwnModel(PreTrainedModel):
    config_class = OwnConfig
    _supports_sdpa = True

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([OwnAttention(config), OwnAttention(config)])
        self.head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None):
        x = self.embed(input_ids)
        mask = torch.full((x.shape[1],) * 2, torch.finfo(x.dtype).min).triu(1)[None, None]
        for layer in self.layers:
            x = x + layer(x, mask.to(x.dtype))
        return CausalLMOutput(logits=self.head(x))
"""
ATTENDS = {
    "interface": "own = ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]\n"
    "        out, _ = own(self, q, k, v, mask, scaling=scale, dropout=0.0)",
    "sdpa": "out = nn.functional.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2)",
    "softmax": "weights = nn.functional.softmax(q @ k.mT * scale + mask, -1)\n"
    "        out = (weights @ v).transpose(1, 2)",
}


def folder(root: Path, attend: str = ATTENDS["sdpa"], model: str = MODEL) -> Path:
    """A folder whose code writes root/ran when it is run."""
    made = root / f"own{abs(hash(str(root)))}"  # modules are known by the name of the folder
    made.mkdir()
    auto = {"AutoConfig": "configuration_own.OwnConfig"}
    auto["AutoModelForCausalLM"] = "modeling_own.OwnModel"
    config = {"model_type": "own", "architectures": ["OwnModel"], "auto_map": auto}
    (made / "config.json").write_text(json.dumps(config))
    (made / "configuration_own.py").write_text(CONFIGURATION.format(mark=str(root / "ran")))
    (made / "modeling_own.py").write_text(model.replace("{attend}", attend))
    return made


@pytest.fixture(autouse=True, scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Copies of code go into a folder of these tests."""
    where = "transformers.dynamic_module_utils.HF_MODULES_CACHE"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, str(tmp_path_factory.mktemp("modules")))
        patch.setattr(sys, "path", [*sys.path])
        yield


def trusted(made: Path) -> LoadOptions:
    return LoadOptions(source=str(made), random_weights=True, trust_remote_code=True)


def test_it_is_not_run_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = folder(tmp_path)
    assert main(["model", str(made), "--random-weights"]) == 2
    said = capsys.readouterr().err
    assert "the model comes with code of its own, which is not run" in said
    assert "--trust-remote-code runs it" in said
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("how", ATTENDS)
def test_it_is_run_and_seen_when_trusted(how: str, tmp_path: Path) -> None:
    loaded = load(trusted(folder(tmp_path, ATTENDS[how])))
    assert (tmp_path / "ran").exists()
    result = capture(loaded, drawn(loaded))
    assert {facts.how for facts in result.coverage.calls} == {how}
    assert len(result.coverage.calls) == 2
    assert result.check is not None
    assert result.check.verdict == "identical"


def test_what_it_prints_is_no_part_of_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = folder(tmp_path)
    command = ["model", str(made), "--random-weights", "--trust-remote-code", "--json"]
    assert main(command) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["model"]["architecture"] == "OwnModel"
    assert "a word on stdout" in told.err


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def broken(:\n", "own code fails to be read, line 1: SyntaxError"),
        ("raise RuntimeError('boom')\n", "own code fails at modeling_own.py:1: RuntimeError: boom"),
        ("import sys\nsys.exit('enough')\n", "own code fails at modeling_own.py:2: SystemExit: en"),
        ("import no_such_package\n", "the model needs more: "),
        ("class Other: pass\n", ""),
    ],
)
def test_code_that_fails_is_one_sentence(code: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(AttnError) as caught:
        load(trusted(folder(tmp_path, model=code)))
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_code_that_ends_the_program_while_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = folder(tmp_path, "raise SystemExit(0)")
    assert main(["model", str(made), "--random-weights", "--trust-remote-code"]) == 2
    assert "OwnModel does not take this input" in capsys.readouterr().err


def test_code_that_is_not_there(tmp_path: Path) -> None:
    made = folder(tmp_path)
    (made / "modeling_own.py").unlink()
    with pytest.raises(AttnError, match=r"holds no .*modeling_own\.py"):
        load(trusted(made))
