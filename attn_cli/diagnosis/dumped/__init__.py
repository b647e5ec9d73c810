"""Dumped stages explained: which mistake of the catalogue makes them of what came before."""
