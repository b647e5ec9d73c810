"""The checks, one a file: arguments in, result out; no screen and no exit code."""
