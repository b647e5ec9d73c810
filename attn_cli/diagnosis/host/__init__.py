"""Where somebody's code runs: a process of its own that is told what to do through a pipe.

`worker` does what is asked (load, build, set, call); `child` serves it in a process, `session`
is the other end. Only what the child imports may import torch.
"""
