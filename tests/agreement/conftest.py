"""Small tensors want one thread: handing them to several costs more than computing them."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
