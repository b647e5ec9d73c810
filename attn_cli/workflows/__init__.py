"""One plain function a command: arguments in, result out; no screen and no exit code."""
