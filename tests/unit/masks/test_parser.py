"""The text of a mask: what it may be, and one clear sentence for what it may not."""

from __future__ import annotations

import pytest

from attn_cli.errors import InputError
from attn_cli.masks.expression import parse

READ = [
    ("causal", "causal"),
    ("causal()", "causal"),
    ("  causal\t&\nsink(1) ", "causal & sink(1)"),
    ("window(3,both)", "window(3, both)"),
    ("window(W=3)", "window(3)"),
    ("window(1_000)", "window(1000)"),
    ("dilated(s=2, W=3)", "dilated(3, 2)"),
    ("global(0, 2)", "global(0, 2)"),
    ("padding", "padding"),
    ("padding()", "padding"),
    ("padding(3, 5)", "padding(3, 5)"),
    ("documents(3,2)", "documents(3, 2)"),
    ("random(2)", "random(2, seed=0)"),
    ("random(seed=7, n=2)", "random(2, seed=7)"),
    ("random(2, seed=18446744073709551615)", "random(2, seed=18446744073709551615)"),
    ('file("m.npy")', 'file("m.npy")'),
    ("file('m.npy')", 'file("m.npy")'),
    ("file('a\"b.npy')", "file('a\"b.npy')"),
    (r"file('C:\new\x\m.npy')", r'file("C:\new\x\m.npy")'),  # text has no escapes
    ("file('global #1.npy')", 'file("global #1.npy")'),
    ("file('面具.npy') | global(1)", 'file("面具.npy") | global(1)'),
    ("causal & (window(256)|sink(4))", "causal & (window(256) | sink(4))"),
    ("causal & window(3) | sink(4)", "(causal & window(3)) | sink(4)"),
    ("causal & (sink(1) & none)", "causal & sink(1) & none"),
    ("~causal & sink(1)", "~causal & sink(1)"),
    ("~(causal | sink(1))", "~(causal | sink(1))"),
    ("~~((causal))", "~~causal"),
    ("&".join(["causal"] * 2000), " & ".join(["causal"] * 2000)),
]


@pytest.mark.parametrize("text, normalised", READ, ids=range(len(READ)))
def test_what_can_be_read(text: str, normalised: str) -> None:
    assert str(parse(text)) == normalised
    assert str(parse(normalised)) == normalised


NAMES = [
    ("cusal", "no mask 'cusal'", "did you mean 'causal'"),
    ("Causal", "no mask 'Causal'", "did you mean 'causal'"),
    ("Global(0)", "no mask 'Global'", "did you mean 'global'"),
    ("ｃausal", "no mask 'ｃausal'", "did you mean 'causal'"),
    ("causal & sinks(1)", "no mask 'sinks'", "did you mean 'sink'"),
    ("x" * 5000, "no mask 'xxx", "known: none, causal"),
]

ARGUMENTS = [
    ("window", "window needs W", "window(W) or window(W, both): "),
    ("window(0)", "W is a whole number of at least 1, and 0 came", "window(W)"),
    ("window(-1)", "and -1 came", "window(W)"),
    ("window(3.0)", "and 3.0 came", "window(W)"),
    ("window(True)", "and True came", "window(W)"),
    ("window(None)", "and None came", "window(W)"),
    ("window(both)", "and both came", "window(W)"),
    ("window('3')", "and '3' came", "window(W)"),
    ("window(2\n+3)", "and 2 +3 came", "window(W)"),
    ("window(1or 2)", "and 1or 2 came", "window(W)"),
    ("window(10**400)", "and 10**400 came", "window(W)"),
    ("window(--3)", "and --3 came", "window(W)"),
    ("window(*3)", "and *3 came", "window(W)"),
    ("window(1" + "0" * 400 + ")", "W is at most 2147483647, and 1000", "window(W)"),
    ("window(0x" + "f" * 9000 + ")", "W is at most 2147483647, and 0xfff", "window(W)"),
    ("window(2147483648)", "W is at most 2147483647, and 2147483648 came", "window(W)"),
    ("window(3, booth)", "window has no place for booth", "window(W)"),
    ("window(3, both, both)", "window has no place for both", "window(W)"),
    ("window(3, W=4)", "window has no place for W=4", "window(W)"),
    ("causal(3)", "causal has no place for 3", "causal: a query sees"),
    ("dilated(3)", "dilated needs s", "dilated(W, s): "),
    ("sink(-1)", "n is a whole number of at least 0", "sink(n): "),
    ("block(0)", "s is a whole number of at least 1", "block(s): "),
    ("global", "global needs i, j, …", "global(i, j, …): "),
    ("global(0, 1.5)", "each of i, j, … is a whole number of at least 0, and 1.5", "global("),
    ("documents(3, 0)", "each of a, b, … is a whole number of at least 1, and 0", "documents("),
    ("padding(3, x)", "each of a, b, … is a whole number of at least 0, and x", "padding("),
    ("random(2, 3)", "random has no place for 3", "random(n) or random(n, seed=0): "),
    ("random(2, sed=3)", "random has no place for sed=3", "random(n)"),
    ("sink(1, " + "n" * 5000 + "=3)", "sink has no place for nnn", "sink(n)"),
    ("random(2, seed=1, seed=2)", "random is given seed twice", "random(n)"),
    ("random(2, seed=18446744073709551616)", "seed is at most 18446744073709551615", "random("),
    ("file(m.npy)", "path is text in quotes, and m.npy came", 'file("m.npy")'),
    ("file('')", "path is text in quotes, and '' came", 'file("m.npy")'),
    ("file('''m.npy''')", "path is text in quotes", 'file("m.npy")'),
    ("file('a' 'b')", "path is text in quotes", 'file("m.npy")'),
    ("file(f'a')", "path is text in quotes", 'file("m.npy")'),
    ("file(rb'a')", "path is text in quotes", 'file("m.npy")'),
]

FOREIGN = [
    ("causal and sink(1)", "the words and, or, not: 'causal and sink(1)'", "& for and"),
    ("causal or sink(1)", "the words and, or, not", "| for or"),
    ("not causal", "the words and, or, not: 'not causal'", "~ for not"),
    ("causal > 3", "'causal > 3' is not part of a mask expression", "& | ~"),
    ("causal + sink(1)", "'causal + sink(1)' is not part", "& | ~"),
    ("causal ^ sink(1)", "is not part", "& | ~"),
    ("-causal", "is not part", "& | ~"),
    ("causal, sink(1)", "is not part", "& | ~"),
    ("3", "'3' is not part", "& | ~"),
    ("True", "'True' is not part", "& | ~"),
    ("[causal]", "is not part", "& | ~"),
    ("lambda: causal", "is not part", "& | ~"),
    ("causal if causal else none", "is not part", "& | ~"),
    ("(causal := none)", "is not part", "& | ~"),
    ("torch.causal(3)", "'torch.causal(3)' is not part", "& | ~"),
    ("sink(1)(2)", "is not part", "& | ~"),
    ("sink(**n)", "'**n' is not part", "& | ~"),
    ("__import__('os').system('true')", "is not part", "& | ~"),
    ("m.npy", "'m.npy' is not part", 'file("m.npy")'),
    ("'m.npy'", "is not part", 'file("m.npy")'),
]

SYNTAX = [
    ("", "is empty", "causal & ("),
    (" \n", "is empty", "causal & ("),
    ("causal &", "ends too early", "& | ~"),
    ("causal & ", "ends too early", "& | ~"),
    ("causal)", "column 6, ')'", "& | ~"),
    ("(causal", "column 0, '(causal': '(' was never closed", "& | ~"),
    ("causal && sink(1)", "column 8, '& sink(1)'", "& | ~"),
    ("global(0) & global(1) sink(1)", "column 22, 'sink(1)'", "& | ~"),
    ("global(0) & !causal", "column 12, '!causal'", "& | ~"),
    ("面(0) & !causal", "column 7, '!causal'", "& | ~"),
    ("causal # & sink(1)", "column 7, '# & sink(1)'", "& | ~"),
    ("causal; sink(1)", "column 6, '; sink(1)'", "& | ~"),
    ("window(3 both)", "column 7, '3 both)'", "& | ~"),
    ("causal（3）", "column 6, '（3）'", "& | ~"),
    ("file('m.npy", "column 5", "& | ~"),
    ("/data/m.npy", "column 0, '/data/m.npy'", 'file("m.npy")'),
    ("causal\x00", r"character '\x00' at column 6", "& | ~"),
    ("file('\x1b[31m')", r"character '\x1b' at column 6", "& | ~"),
    ("causal\ud800", r"character '\ud800' at column 6", "& | ~"),
    ("window(1" + "0" * 5000 + ")", "a number in the mask expression is too large", "& | ~"),
]

LARGE = [
    ("causal&" * 4000 + "causal", "has 28006 characters, and 20000", 'file("m.npy")'),
    ("~" * 51 + "causal", "nested too deeply", "50"),
    ("~" * 19_000 + "causal", "nested too deeply", "50"),
    ("sink(1)&(none|(" * 60 + "causal" + "))" * 60, "nested too deeply", "50"),
    ("(" * 9000 + "causal" + ")" * 9000, "too many nested parentheses", "& | ~"),
]


@pytest.mark.parametrize(
    "text, message, hint",
    cases := NAMES + ARGUMENTS + FOREIGN + SYNTAX + LARGE,
    ids=range(len(cases)),
)
def test_what_cannot_be_read(text: str, message: str, hint: str) -> None:
    with pytest.raises(InputError) as raised:
        parse(text)
    assert message in raised.value.message
    assert hint in raised.value.hint
    assert "\n" not in str(raised.value)
    assert len(raised.value.message) < 200
