"""Screens for people, drawn with Rich: one file a part of a screen."""
