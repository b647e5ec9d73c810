"""A hub on this machine: the few answers that fetching a model asks for, over folders."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import huggingface_hub
import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Answer = tuple[int, bytes, dict[str, str]]


@dataclass
class LocalHub:
    """`root` holds organisation/model/files; `refusals` an answer for some names; `asked` grows."""

    root: Path
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> Answer:
        parts = path.strip("/").split("/")
        listing = parts[:2] == ["api", "models"]
        name = "/".join(parts[2:4] if listing else parts[:2])
        if name in self.refusals:
            status, code = self.refusals[name]
            return status, b"", {"X-Error-Code": code, "X-Error-Message": code}
        folder = self.root / name
        if not folder.is_dir():
            return 401, b"", {"X-Error-Code": "RepoNotFound"}
        self.asked.append("/".join(parts[4:]))
        if listing:
            return 200, json.dumps(_listing(folder, name, parts[4:])).encode(), {}
        file = folder.joinpath(*parts[4:])
        content = file.read_bytes()
        return 200, content, {"ETag": hashlib.sha1(content).hexdigest(), "X-Repo-Commit": COMMIT}


def _listing(folder: Path, name: str, rest: list[str]) -> Any:
    if rest[:1] != ["tree"]:
        return {"id": name, "sha": COMMIT, "private": False, "tags": [], "downloads": 0}
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [
        {"type": "file", "oid": "0" * 40, "size": file.stat().st_size, "path": path}
        for file in files
        for path in [str(file.relative_to(folder))]
    ]


@contextmanager
def serving(hub: LocalHub) -> Iterator[str]:
    """The address at which the hub answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content, headers = hub.answer(urlparse(self.path).path)
            self.send_response(status)
            for key, value in (*headers.items(), ("Content-Length", str(len(content)))):
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def point_to(monkeypatch: pytest.MonkeyPatch, address: str, cache: Path) -> None:
    """The client asks this hub and keeps what it fetches in `cache`; it waits for nothing."""
    constants = huggingface_hub.constants
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    for name, value in (
        ("ENDPOINT", address),
        ("HUGGINGFACE_CO_URL_TEMPLATE", template),
        ("HF_HUB_CACHE", str(cache)),
        ("HF_HUB_OFFLINE", False),
    ):
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
