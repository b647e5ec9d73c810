"""Worker: does what it is asked with somebody's code, and reports whatever happens."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from attn_cli.diagnosis.host import building, facts, loading
from attn_cli.diagnosis.host.calling import quiet_generators, run_calls
from attn_cli.diagnosis.host.trouble import from_exception

# The step that a request is part of; all others are part of building.
STEP_OF = {"warm": "import", "load": "import", "call": "call", "trace": "call", "gradients": "call"}
_MOST_PRINTED = 20_000  # characters kept of what the code prints in one request


class Worker:
    """One user's object, loaded once and built for each precision it is asked in.

    `handle` takes a request {"op": …} and gives {"ok": …} or {"trouble": …}, both with "printed":
    it never raises for what the code does. Requests, in the order they are made:
    warm {file}: imports the library that the file names;
    load {file | module, name} → facts; build {init, dtype} → description;
    set {values, dtype}: numbers for every later build; read {names, dtype};
    call {calls, lib, dtype, train, seed, init, fresh} → answers;
    trace, the same under observation;
    gradients {step, of, where, cotangent, lib, dtype, init} → gradients.
    """

    def __init__(self, target: Any = None, *, echo: TextIO | None = None) -> None:
        self.target = target
        self.echo = echo  # where what is printed goes as well, should the process not live to tell
        self.module: ModuleType | None = None
        self.file: str | None = None
        self.values: dict[str, Any] = {}
        self.built: dict[str, Any] = {}
        if target is not None:
            self._know(target, sys.modules.get(getattr(target, "__module__", "")))

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request."""
        operations: dict[str, Callable[[dict[str, Any]], Any]] = {
            "warm": self._warm,
            "load": self._load,
            "build": self._build,
            "set": self._set,
            "read": self._read,
            "call": self._call,
            "trace": self._trace,
            "gradients": self._gradients,
        }
        step = STEP_OF.get(request["op"], "build")
        printed = _Printed(self.echo)
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                with (
                    warnings.catch_warnings(),
                    quiet_generators(request.get("seed", 0), request.get("dtype", "float32")),
                ):
                    warnings.simplefilter("ignore")  # a test that makes errors of them is not meant
                    answer = {"ok": operations[request["op"]](request)}
            except loading.Unloadable as error:
                answer = {"trouble": error.trouble.to_dict()}
            except BaseException as error:  # sys.exit and all that the code may raise
                answer = {"trouble": from_exception(step, error, self.file).to_dict()}
        return {**answer, "printed": printed.text()}

    def _warm(self, request: dict[str, Any]) -> None:
        """Imports torch, where the text of the file mentions it, before any of its code runs."""
        with contextlib.suppress(OSError, ImportError):
            if b"torch" in Path(request["file"]).read_bytes():
                importlib.import_module("torch")

    def _load(self, request: dict[str, Any]) -> Any:
        if self.target is None:
            file = request.get("file")
            self.file = file
            module = (
                loading.import_file(Path(file))
                if file
                else loading.import_module(request["module"])
            )
            self._know(loading.find(module, request["name"]), module)
        return facts.about(self.target, self.module)

    def _know(self, target: Any, module: ModuleType | None) -> None:
        self.target, self.module = target, module
        owner = target if inspect.isclass(target) or inspect.isroutine(target) else type(target)
        with contextlib.suppress(TypeError):
            self.file = inspect.getsourcefile(owner) or self.file

    def _build(self, request: dict[str, Any]) -> Any:
        self.built.clear()
        return building.describe(self._instance(request, fresh=True))

    def _set(self, request: dict[str, Any]) -> Any:
        self.values = request["values"]
        self.built.clear()
        return None

    def _read(self, request: dict[str, Any]) -> Any:
        built = self._instance(request, fresh=False)
        return {name: building.read(built, name) for name in request["names"]}

    def _call(self, request: dict[str, Any]) -> Any:
        return self._calling(request)()

    def _trace(self, request: dict[str, Any]) -> dict[str, Any]:
        """{"answer"}, what a call answers, as `handle` gives it; {"seen"}, what its lines did."""
        from attn_cli.diagnosis.trace.swap import watched
        from attn_cli.diagnosis.trace.watcher import Watcher

        watcher, call, file = Watcher(), self._calling(request), self.file or ""
        line = None
        try:
            with watched(file, watcher):
                answer = {"ok": call()}
        except BaseException as error:  # what was seen until then is told all the same
            trouble = from_exception("call", error, file)
            line, answer = trouble.line, {"trouble": trouble.to_dict()}
        return {"answer": answer, "seen": watcher.told(file, line)}

    def _gradients(self, request: dict[str, Any]) -> Any:
        from attn_cli.diagnosis.host.gradients import run_gradients

        with quiet_generators(request.get("seed", 0), request["dtype"]):
            return run_gradients(self._instance(request, fresh=True), request)

    def _calling(self, request: dict[str, Any]) -> Callable[[], Any]:
        """The calls of a request, on an object that is built for it."""
        built = self._instance(request, fresh=request.get("fresh", True))
        if facts.kind_of(built) == "module":
            built.train(bool(request.get("train", False)))
        function = built if callable(built) else built.forward

        def call() -> Any:
            with quiet_generators(request.get("seed", 0), request["dtype"]):
                return run_calls(function, request)

        return call

    def _instance(self, request: dict[str, Any], *, fresh: bool) -> Any:
        """The built object for a precision, made anew where `fresh`: then it remembers nothing."""
        dtype = request["dtype"]
        held = "float64" if dtype.startswith("int") else dtype
        if fresh or held not in self.built:
            built = building.build(self.target, request.get("init"), self.module, held)
            for name, array in self.values.items():
                building.write(built, name, array, held)
            self.built[held] = built
        return self.built[held]


class _Printed(io.TextIOBase):
    """Keeps the beginning of what is printed."""

    def __init__(self, echo: TextIO | None) -> None:
        self.parts: list[str] = []
        self.left = _MOST_PRINTED
        self.echo = echo

    def write(self, text: str) -> int:
        if self.left > 0:
            self.parts.append(text[: self.left])
            if self.echo is not None:
                self.echo.write(text[: self.left])
                self.echo.flush()
        self.left -= len(text)
        return len(text)

    def text(self) -> str:
        return "".join(self.parts) + ("…" if self.left < 0 else "")
