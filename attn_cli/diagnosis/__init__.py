"""Somebody's attention code: how it is loaded, built and called, and what is right for it."""
