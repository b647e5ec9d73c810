"""Documents: shapes and conventions that docstrings and comments state."""

from __future__ import annotations

import re

_WORDS = {
    "B": ("b", "batch", "bs", "bsz", "batch_size", "windows", "nb", "samples"),
    "L": (
        *("t", "l", "n", "s", "tokens", "seq", "seq_len", "length", "tq", "tk", "lq", "lk", "time"),
        *("sequence", "words", "positions", "n_tokens", "num_tokens", "seqlen", "len", "nq", "nk"),
        *(
            "queries",
            "keys",
            "patches",
            "query",
            "key",
            "token",
            "q_len",
            "k_len",
            "seq_length",
            "p",
        ),
        *("sequence_length", "i", "j", "q", "k"),
    ),
    "H": ("h", "heads", "num_heads", "n_heads", "head", "nh", "n_head"),
    "D": (
        *("d", "c", "e", "dim", "features", "channels", "embed", "d_model", "head_dim", "d_head"),
        *("d_k", "hidden", "dk", "dv", "width", "embed_dim", "feature", "emb", "dims", "hd", "f"),
        *("d_v", "hidden_size", "dh", "embedding", "model_dim", "m"),
    ),
    "1": ("1",),
}
_LETTER = {word: letter for letter, words in _WORDS.items() for word in words}
_SHAPE = re.compile(r"[(\[]\s*((?:\.\.\.|…|[\w*]+)(?:\s*,\s*[\w*]+){1,3})\s*,?\s*[)\]]")
LAYOUTS = ("LD", "BLD", "LBD", "HLD", "BHLD", "BLHD", "BHDL", "BCHW")


def shapes(text: str) -> tuple[str, ...]:
    """Every shape that the text writes, as letters B H L D 1, "*" for an ellipsis.

    >>> shapes("x: (batch, tokens, dim), mask (B, 1, Tq, Tk); q (..., T, D)")
    ('BLD', 'B1LL', '*LD')
    """
    found = []
    for match in _SHAPE.finditer(text):
        words = [word.strip().lower() for word in match.group(1).split(",")]
        if words[0] in ("b", "n", "batch") and words[1:] in (["c", "h", "w"], ["d", "h", "w"]):
            found.append("BCHW")
            continue
        letters = [_letter(word) for word in words]
        if len(letters) >= 3 and words[0] == "n" and "B" not in letters:
            letters[0] = "B"  # PyTorch's N
        if "?" not in letters:
            found.append("".join(letters))
    return tuple(found)


def _letter(word: str) -> str:
    if word in ("...", "…", "*"):
        return "*"
    return _LETTER.get(word, "?")


def layouts(text: str) -> tuple[str, ...]:
    """The layouts that the text states for token vectors, q, k and v; "*" for any leading axes."""
    found = []
    for shape in shapes(text):
        if shape in LAYOUTS:
            found.append(shape)
        elif shape in ("*LD", "*L"):
            found.append("*")
    return tuple(dict.fromkeys(found))


def layout_of_names(names: tuple[str, ...]) -> str | None:
    """The layout that shape names spell: `B, T, C = x.shape` is BLD."""
    words = [name.lower().strip("_") for name in names]
    if words[1:] in (["c", "h", "w"], ["d", "h", "w"], ["channels", "height", "width"]):
        return "BCHW"
    letters = [_letter(word) if word else "?" for word in words]
    if len(letters) >= 3 and words[0] == "n":
        letters[0] = "B"
    spelled = "".join(letters)
    if spelled in LAYOUTS:
        return spelled
    if len(words) == 2:
        return "LD"
    if len(words) == 3:
        return "LBD" if letters[:2] == ["L", "B"] else "BLD"
    return None


def about_mask(text: str, name: str) -> str:
    """What is said where a mask is mentioned: by its name, else by the word mask."""
    for wanted in (re.escape(name), r"\w*mask\w*"):
        found = re.findall(rf"\b{wanted}\b[^\n]*(?:\n\s+[^\n]+)?", text)
        if found:
            return " ".join(found)
    return ""


_TRUE = r"\b(?:true|1|ones?|nonzero)\b"
_GAP = r"(?:(?!\bnot\b)[^.;,\n01]){0,30}?"
_HIDDEN = r"(?:hidden|hides?|block(?:ed|s)?|pad(?:ding|s)?|ignored?|masked|drop(?:ped)?)"
_SEEN = (
    r"(?:may attend|attends?|looks?|keeps?|kept|visible|real|tokens?|words?|allowed|valid|speech"
    r"|exist|sees?|can see|present|use)"
)
_KEEP = rf"{_TRUE}{_GAP}\b{_SEEN}"
_HIDE = rf"{_TRUE}{_GAP}\b{_HIDDEN}|{_TRUE}[^.;,\n01]{{0,30}}?\bnot\b"
_KEEP_ZERO = rf"\b(?:0|zeros?|false)\b[^.;,\n1]{{0,20}}?\b{_HIDDEN}"
_ADDED = (
    r"0 or -?\s?(?:inf|∞|a very negative|very negative)|additive|very negative"
    r"|added to the (?:scores|logits)"
)


def mask_meaning(said: str) -> str | None:
    """keep, hidden or additive, as `about_mask` states it; None where it does not, or both."""
    lower = said.lower()
    found = {
        "keep": re.search(_KEEP, lower) or re.search(_KEEP_ZERO, lower),
        "hidden": re.search(_HIDE, lower),
        "additive": re.search(_ADDED, lower),
    }
    told = [means for means, match in found.items() if match]
    return told[0] if len(told) == 1 else None


def mask_axes(said: str) -> str | None:
    """The axes of a mask, as `about_mask` states them: BS, LS, BLS, B1LS, B11S, HLS, 1HLS."""
    known = {
        "BL": "BS",
        "LL": "LS",
        "BLL": "BLS",
        "B1LL": "B1LS",
        "BHLL": "B1LS",
        "B11L": "B11S",
        "HLL": "HLS",
        "1HLL": "1HLS",
    }
    return next((known[shape] for shape in shapes(said) if shape in known), None)
