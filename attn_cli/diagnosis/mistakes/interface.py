"""Mistakes that no formula commits: state, side effects, dropout, and calls that fail."""

from __future__ import annotations

from attn_cli.diagnosis.mistakes.base import Mistake

MUTATES_INPUTS = Mistake(
    "mutates_inputs",
    "interface",
    "the code writes into its arguments",
    "In-place operations change the caller's tensors: a second call with them is wrong.",
    "work on a new tensor: q = q * scale instead of q.mul_(scale)",
    "the arguments hold other numbers after the call",
)
STATEFUL_BETWEEN_CALLS = Mistake(
    "stateful_between_calls",
    "state",
    "something of an earlier call is kept and used",
    "The result depends on what was asked before: another mask, other keys.",
    "keep no tensors of a call on self, unless a cache is passed in",
    "the same question has another answer on an object that was asked something else before",
)
DROPOUT_IN_EVAL = Mistake(
    "dropout_in_eval",
    "dropout",
    "dropout is active in eval mode",
    "Results change from call to call. F.scaled_dot_product_attention and F.dropout do not know "
    "the mode by themselves.",
    "dropout_p=self.p if self.training else 0.0",
    "another seed gives another result in eval mode",
)
DROPOUT_BEFORE_SOFTMAX = Mistake(
    "dropout_before_softmax",
    "dropout",
    "dropout is applied to the scores",
    "A dropped score becomes 0, not hidden: in train mode the key keeps weight.",
    "dropout on the weights, after softmax",
    "in train mode rows still sum to 1",
)
WRONG_ON_LARGE_SCORES = Mistake(
    "wrong_on_large_scores",
    "softmax",
    "rows that see keys go wrong where scores are large",
    "On ordinary scores the code is right; where softmax is one-hot, something overflows, "
    "underflows or cancels.",
    "subtract the row's maximum before exp, and hide keys before softmax",
    "no named mistake gives these numbers",
)
CRASH_ON_BOOL_MASK = Mistake(
    "crash_on_bool_mask",
    "interface",
    "it fails for a bool mask",
    "1 − mask is no operation on bool tensors.",
    "~mask, or mask.to(scores.dtype)",
    "a float mask of the same meaning works",
)
CRASH_ON_LENGTH_MISMATCH = Mistake(
    "crash_on_length_mismatch",
    "interface",
    "it fails where queries and keys have different lengths",
    "k and v are viewed with the length of q.",
    "take each length from its own tensor: k.size(1)",
    "equal lengths work",
)
