"""Code that does not come back, and code that says much; no library but NumPy."""

import os
import sys
import time

import numpy as np


def dies(q, k, v):
    print("about to go")
    os._exit(7)


def never_ends(q, k, v):
    while True:
        time.sleep(0.01)


def crashes(q, k, v):
    import ctypes

    return ctypes.string_at(0)


def talks(q, k, v):
    print("shape", tuple(q.shape))
    print("warning", file=sys.stderr)
    os.write(1, b"past python\n")
    q *= 2
    return np.einsum("bqd,bkd->bqk", q, k) @ v


def counts(q, k, v, calls=[]):
    """Remembers how often it was called, and draws."""
    calls.append(q)
    return v + len(calls) + np.random.rand()
