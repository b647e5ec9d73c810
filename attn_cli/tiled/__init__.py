"""Attention tile by tile on torch tensors: the output and every row statistic, never an L × S."""
