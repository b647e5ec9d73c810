"""The command `attn`: finds the subcommand, and turns what happens into an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated

import typer

from attn_cli.commands.options import EXIT_CODES
from attn_cli.commands.output import (
    drop_stdout,
    encoding,
    escape_unencodable,
    open_closed_streams,
    say,
    write,
)
from attn_cli.commands.ranks import check_command, hush
from attn_cli.commands.version import show_version
from attn_cli.core.ranks import PartDone, place
from attn_cli.errors import AttnError, ExitCode

# A subcommand is a module with `register(app)`; only the one that is called is imported.
COMMANDS = {
    "run": "attn_cli.commands.run",
    "explain": "attn_cli.commands.explain",
    "mask": "attn_cli.commands.mask",
    "diff": "attn_cli.commands.diff",
    "model": "attn_cli.commands.model",
    "bench": "attn_cli.commands.bench",
    "check": "attn_cli.commands.check",
}

ABOUT = "A debugger for attention, in the terminal."
# Typer's own word for wrong usage; it lies in no public module.
USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]


def entry() -> None:
    """The console script."""
    open_closed_streams()
    hush(place())
    escape_unencodable()
    try:
        code = main()
    except Exception as error:  # a fault of attn: its traceback, and no code that means a result
        traceback.print_exc()
        code = _refused(
            f"attn itself failed: {type(error).__name__}: {error}",
            "please report it with the lines above and what attn --version prints",
            json="--json" in sys.argv,
        )
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; what a user can mend is said, not raised."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    json = "--json" in arguments
    try:
        return _called(arguments)
    except AttnError as error:
        if os.environ.get("ATTN_DEBUG"):
            traceback.print_exc()
        _refused(error.message, error.hint, json=json)
        return error.code
    except USAGE_ERROR as error:
        return _refused(*_usage(error, arguments), json=json)
    except MemoryError:
        return _refused("memory ran out", "give fewer tokens or heads", json=json)
    except PartDone:  # the first of several processes says the rest
        return ExitCode.OK
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except (BrokenPipeError, SystemExit):  # Typer makes the second of the first, with code 1
        drop_stdout()
        return ExitCode.OK
    except OSError as error:
        if error.filename is not None:
            raise
        drop_stdout()  # Typer's own help found it full
        return _refused(f"cannot write to standard output: {error.strerror}", "", json=json)


def _called(arguments: list[str]) -> int:
    check_command(place(), arguments)
    code = _app(arguments)(arguments or ["--help"], prog_name="attn", standalone_mode=False)
    sys.stdout.flush()
    return int(code or 0)


def _app(arguments: list[str]) -> typer.Typer:
    """The app with the subcommand that is called, or with all of them where none is."""
    app = typer.Typer(
        name="attn",
        help=ABOUT,
        epilog=EXIT_CODES,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_about)
    called = arguments[0] if arguments else ""
    for name in [called] if called in COMMANDS else COMMANDS:
        import_module(COMMANDS[name]).register(app)
    return app


def _about(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            help="Print the versions of attn and of what it stands on.",
            callback=show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Options of attn itself."""


def _usage(error: Exception, arguments: list[str]) -> tuple[str, str]:
    """Typer's words on wrong usage as one line, and where to read on."""
    words = " ".join(getattr(error, "format_message", error.__str__)().split())
    words = words.replace("Value error, ", "").rstrip(".")
    return words[:1].lower() + words[1:], f"{_command(arguments)} --help shows what it takes"


def _command(arguments: list[str]) -> str:
    """What was called, as far as it exists: `attn`, `attn run`, `attn check shapes`."""
    from attn_cli.commands.check import CHECKS

    if not arguments or arguments[0] not in COMMANDS:
        return "attn"
    deeper = arguments[0] == "check" and len(arguments) > 1 and arguments[1] in CHECKS
    return " ".join(["attn", *arguments[: 2 if deeper else 1]])


def _refused(message: str, hint: str, *, json: bool) -> ExitCode:
    """Says why attn cannot run: on stderr, and as an object on stdout where JSON was asked for."""
    from attn_cli.render.json_text import error_fields, json_text
    from attn_cli.render.text import clean

    message, hint = clean(message), clean(hint)
    if json:
        with suppress(AttnError):  # stdout takes nothing: then stderr says it alone
            write(json_text(error_fields(message, hint), encoding()))
        say(f"attn: {message}" + (f" ({hint})" if hint else ""))
    else:
        say(f"attn: {message}" + (f"\n      {hint}" if hint else ""))
    return ExitCode.CANNOT_RUN
