"""roles: what is what in a file, and what is said of files that do not tell."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.errors import InputError
from attn_cli.recognize.roles import find_context, find_roles
from tests.unit.recognize.dumps import codes, dump_of, normal, qkv, read, said


def test_synonyms_are_said() -> None:
    arrays = qkv((3, 4))
    named = {"query_states": arrays["q"], "Key": arrays["k"], "V": arrays["v"]}
    reading = read(dump_of(**named))
    np.testing.assert_array_equal(reading.inputs.q[0, 0], arrays["q"])
    assert reading.names == {"q": "query_states", "k": "Key", "v": "V"}
    assert said(reading, "names") == "read query_states as q, Key as k"


@pytest.mark.parametrize("present, missing", [("qk", "v"), ("qv", "k"), ("v", "q")])
def test_incomplete_qkv_names_what_is_missing(present: str, missing: str) -> None:
    arrays = {name: normal(3, 4) for name in present}
    with pytest.raises(InputError, match=f"no {missing}") as caught:
        find_roles(dump_of(**arrays, x=normal(3, 4)))
    assert f"{present[0]} (3, 4)" in caught.value.hint


def test_one_array_of_any_name_is_token_vectors_and_said() -> None:
    reading = read(dump_of(layer_12=normal(3, 4)))
    assert reading.summary.kind == "token vectors"
    assert codes(reading)[:2] == ["one-array", "no-projections"]
    assert "layer_12" in said(reading, "one-array")


def test_one_array_beside_unknown_texts_is_not_guessed() -> None:
    with pytest.raises(InputError, match=r"emb \(1, 2\), words \(text\)") as caught:
        find_roles(dump_of(emb=normal(1, 2), texts={"words": ["a"]}))
    assert "q, k and v" in caught.value.hint


def test_several_unknown_arrays_are_listed() -> None:
    with pytest.raises(InputError, match=r"a \(3, 4\), b \(3, 4\), step \(\)"):
        find_roles(dump_of(a=normal(3, 4), b=normal(3, 4), step=np.array(1)))


def test_a_mask_alone_is_nothing_to_attend_over() -> None:
    with pytest.raises(InputError, match=r"neither token vectors nor q, k and v .*mask \(4, 4\)"):
        find_roles(dump_of(mask=np.ones((4, 4), bool)))


def test_names_are_shown_without_control_characters() -> None:
    with pytest.raises(InputError) as caught:
        find_roles(dump_of(**{"a\x1b[31m": normal(2), "b" * 500: normal(2)}))
    assert "\\x1b" in caught.value.message
    assert "\x1b" not in caught.value.message
    assert len(caught.value.message) < 300


def test_a_long_list_is_cut() -> None:
    arrays = {f"array_{i}": normal(2) for i in range(30)}
    with pytest.raises(InputError, match="and 22 more"):
        find_roles(dump_of(**arrays))


@pytest.mark.parametrize("names", [("weights",), ("scores", "weights", "context")])
def test_stages_alone_are_no_input(names: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="stages of a computation"):
        find_roles(dump_of(**{name: normal(1, 1, 3, 3) for name in names}))


@pytest.mark.parametrize(
    "names",
    [
        ("layers.0.self_attn.q_proj.weight", "layers.0.self_attn.k_proj.weight"),
        ("W_q", "W_k", "W_v"),
        ("in_proj_weight",),
        ("h.0.attn.c_attn.weight", "h.0.attn.bias"),
    ],
)
def test_model_weights_are_not_attended_over(names: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="model's weights") as caught:
        find_roles(dump_of(**{name: normal(4, 4) for name in names}))
    assert names[0] in caught.value.message
    assert "q, k and v" in caught.value.hint


def test_weights_beside_token_vectors_are_not_left_out_silently() -> None:
    with pytest.raises(InputError, match="W_q but no W_k and no W_v"):
        find_roles(dump_of(x=normal(3, 4), W_q=normal(4, 4)))
    with pytest.raises(InputError, match=r"no projections by a known name \(mlp\.fc1\.weight\)"):
        find_roles(dump_of(**{"x": normal(3, 4), "mlp.fc1.weight": normal(4, 4)}))


def test_a_saved_trace_is_read_again_from_q_k_and_v() -> None:
    stages = {name: normal(1, 2, 3, 3) for name in ("scores", "masked", "weights", "softmax_lse")}
    context = {
        "context": normal(1, 2, 3, 5),
        "merged": normal(1, 3, 10),
        "output": normal(1, 3, 10),
    }
    arrays = qkv((1, 2, 3, 5))
    reading = read(dump_of(**arrays, **stages, **context, x=normal(1, 3, 10)))
    assert reading.inputs.q_offset == 0
    assert reading.summary.context is None
    assert codes(reading) == ["layout", "x-beside-qkv"]
    assert reading.inputs.x is not None
    assert reading.inputs.x.shape == (1, 3, 10)


def test_a_second_sequence_beside_q_k_and_v_tells_whose_the_keys_are() -> None:
    own = read(dump_of(**qkv((1, 2, 3, 5)), context=normal(1, 3, 10)))
    assert own.inputs.q_offset == 0
    other = read(dump_of(**qkv((1, 2, 3, 5)), encoder_hidden_states=normal(1, 3, 10)))
    assert other.inputs.q_offset is None
    assert other.summary.context == "encoder_hidden_states"


def test_x_that_does_not_fit_q_is_left_aside_and_said() -> None:
    reading = read(dump_of(**qkv((3, 4)), x=normal(5, 4)))
    assert reading.inputs.x is None
    assert "not used" in said(reading, "x-beside-qkv")


def test_unknown_arrays_are_named() -> None:
    reading = read(dump_of(x=normal(3, 4), loss=np.array(1.0), step=np.array(2)))
    assert said(reading, "ignored-arrays") == "not used: loss, step"


def test_an_unknown_mask_is_more_than_a_note() -> None:
    reading = read(dump_of(x=normal(3, 4), src_mask=np.ones((3, 3), bool)))
    (finding,) = [f for f in reading.findings if f.code == "ignored-mask"]
    assert finding.severity == "warning"
    assert "src_mask" in finding.message


def test_a_context_file_gives_vectors_tokens_and_lengths() -> None:
    roles = find_context(
        dump_of(vectors=normal(3, 4), lengths=np.array([2]), settings={"heads": 2})
    )
    assert roles.names == {"x": "vectors", "lengths": "lengths"}
    assert [finding.code for finding in roles.findings] == ["ignored-settings"]


def test_a_context_file_with_more_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"other\.npz holds mask"):
        find_context(dump_of(x=normal(3, 4), mask=np.ones((3, 3)), source="other.npz"))
    layer = {"w_q": normal(4, 4), "w_k": normal(4, 4), "w_v": normal(4, 4)}
    with pytest.raises(InputError, match=r"other\.npz holds w_q, w_k, w_v beside its vectors"):
        find_context(dump_of(x=normal(3, 4), **layer, source="other.npz"))
    with pytest.raises(InputError, match=r"other\.npz holds wpe\.weight"):
        find_context(dump_of(**{"x": normal(3, 4), "wpe.weight": normal(9, 4)}, source="other.npz"))
    with pytest.raises(InputError, match=r"other\.npz holds q, k and v"):
        find_context(dump_of(**qkv((3, 4)), source="other.npz"))
    with pytest.raises(InputError, match=r"other\.npz: neither token vectors"):
        find_context(dump_of(a=normal(3), source="other.npz"))
