"""Probes: the questions that tell right code from wrong, and mistakes from each other."""
