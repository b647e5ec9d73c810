"""Checks: what attn says of a run, the same functions for users and for attn's own tests."""
