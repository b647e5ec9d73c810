"""Gradients: autograd beside finite differences, for any differentiable attention."""
