"""The hub: a model's files by its name, fetched into the cache that other programs share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from attn_cli.errors import AttnError, InputError
from attn_cli.formats.names import printable
from attn_cli.models.checkpoint.config_file import LONGEST_INDEX, read_object
from attn_cli.models.hf.extra import needed

SMALL = ("*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken")
CODE = ("*.py",)
WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # the first that is there
CHAIN = 8  # causes that an error is followed to


def fetched(name: str, *, code: bool, weights: bool) -> Path:
    """The folder of the cache that holds the newest version of a model, called by its commit.

    Without `weights` configuration and tokenizer alone, without `code` no Python files. What is in
    the cache is not fetched again, and is used where the hub cannot be reached. InputError in one
    sentence for a name that is none, a model that is not there or not for everybody, and a hub that
    does not answer.
    """
    with hub_errors(name):
        folder = _download(name, SMALL, ignore=("*/*",))
        if code:
            _download(name, CODE, revision=folder.name)
        if weights:
            _weights(name, folder)
    return folder


def _weights(name: str, folder: Path) -> None:
    """The files of weights that transformers will look for; none where the model has none."""
    for whole in WEIGHTS:
        for files in ([whole], _shards(folder / f"{whole}.index.json")):
            if files:
                _download(name, files, revision=folder.name)
            if files and all((folder / file).exists() for file in files):
                return


def _shards(index: Path) -> list[str]:
    """The files that an index names; empty without one. Those outside the folder are left out."""
    if not index.exists():
        return []
    named = read_object(index, longest=LONGEST_INDEX).get("weight_map")
    files = set(named.values()) if isinstance(named, dict) else set()
    return sorted(f for f in files if isinstance(f, str) and PurePosixPath(f).name == f)


def _download(
    name: str, patterns: Sequence[str], *, ignore: Sequence[str] = (), revision: str | None = None
) -> Path:
    package: Any = needed("huggingface_hub", "hf")
    package.utils.logging.set_verbosity_error()
    package.utils.disable_progress_bars()
    folder = package.snapshot_download(
        name, revision=revision, allow_patterns=list(patterns), ignore_patterns=list(ignore)
    )
    return Path(folder)


@contextmanager
def hub_errors(name: str) -> Iterator[None]:
    """What goes wrong between here and the hub, as one sentence with the next step."""
    try:
        yield
    except (AttnError, MemoryError):
        raise
    except Exception as error:  # of the hub's client, of HTTP, of the network, of the disk
        raise _refusal(printable(name), list(_causes(error))) from error


def _refusal(name: str, causes: list[BaseException]) -> AttnError:
    errors: Any = needed("huggingface_hub.errors", "hf")

    def met(*kinds: str) -> bool:
        known = tuple(getattr(errors, kind) for kind in kinds if hasattr(errors, kind))
        return any(isinstance(cause, known) for cause in causes)

    if met("HFValidationError"):
        return InputError(
            f"{name}: is no folder here, and no name on the hub has this form",
            hint="give the folder that holds config.json, or a name such as organisation/model",
        )
    if met("GatedRepoError"):
        return InputError(
            f"{name}: its authors choose who may fetch it from the hub",
            hint="ask for access on its page, then log in with: hf auth login",
        )
    if met("RepositoryNotFoundError"):
        return InputError(
            f"{name}: is no folder here, and the hub has no such model, or a private one",
            hint="check the name; for a private model log in with: hf auth login",
        )
    if any(_status(cause) in (401, 403) for cause in causes):
        return InputError(
            f"{name}: is no folder here, and the hub does not accept who asks for it",
            hint="log in again with: hf auth login (or mend HF_TOKEN)",
        )
    if met("OfflineModeIsEnabled"):
        return InputError(
            f"{name}: is not in the cache, and HF_HUB_OFFLINE keeps the hub from being asked",
            hint="unset HF_HUB_OFFLINE, or give the folder that holds config.json",
        )
    return InputError(
        f"{name}: is no folder here, and could not be fetched from the hub: {_reason(causes)}",
        hint="give the folder that holds config.json and the weights, or try again later",
    )


def _status(error: BaseException) -> Any:
    """The status of the answer that an error came of; None without one."""
    return getattr(getattr(error, "response", None), "status_code", None)


def _reason(causes: Sequence[BaseException]) -> str:
    """What the innermost error says, which is the one that happened."""
    lines = (line.strip() for cause in reversed(causes) for line in str(cause).splitlines())
    return printable(next((line[:200] for line in lines if line), type(causes[0]).__name__))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came of, outermost first."""
    each: BaseException | None = error
    for _ in range(CHAIN):
        if each is None:
            return
        yield each
        each = each.__cause__ or each.__context__
