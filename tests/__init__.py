"""The tests of attn."""
