"""prometheus: a report's figures as a file for the textfile collector of a node exporter."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attn_cli.core.model_calls import CallPlace
from attn_cli.core.model_heads import MEANS, OTHERS
from attn_cli.core.model_health import RULES, Health
from attn_cli.core.results_model import ModelReport
from attn_cli.errors import AttnError, InputError, UnsupportedError
from attn_cli.formats.write import check_place

OF_HEAD = ("model", "stack", "layer", "head")
OF_LAYER = ("model", "stack", "layer")
HEALTH = {
    "likeness": "how alike the heads look, between chance (0) and equal (1), mean over texts",
    "kl": "KL(layer || layer before) of rows averaged over heads, in nats, mean over texts",
    "kl_share": "that KL over the KL of chance, mean over texts",
}
Sample = tuple[tuple[str, ...], float]


def check_prometheus(path: str, *, force: bool) -> None:
    """UnsupportedError without the package, InputError where the file may not be written."""
    _client()
    if not path:
        raise InputError("--prometheus has no path: expected a file")
    check_place(Path(path), force=force)


def write_prometheus(report: ModelReport, path: str) -> None:
    """Gauges: every figure of every shown head, health by layer, alarms by rule.

    A figure that is not defined for a head has no sample. The file appears whole or not at all.
    """
    client = _client()
    registry = client.CollectorRegistry()
    for name, words, labels, samples in _gauges(report):
        gauge = client.Gauge(name, words, labels, registry=registry)
        for values, number in samples:
            gauge.labels(*values).set(number)
    try:
        client.write_to_textfile(path, registry)
    except OSError as error:
        raise AttnError(f"{path}: cannot be written: {error.strerror}") from error


def _client() -> Any:
    try:
        return importlib.import_module("prometheus_client")
    except ImportError as error:
        raise UnsupportedError(
            "prometheus-client is not installed, and --prometheus needs it",
            hint="pip install 'attn-cli[metrics]'",
        ) from error


def _gauges(report: ModelReport) -> Iterator[tuple[str, str, tuple[str, ...], list[Sample]]]:
    for name, words in {**MEANS, **OTHERS}.items():
        yield f"attn_head_{name}", words, OF_HEAD, list(_of_heads(report, name))
    found = report.answers.health
    if found is None:
        return
    for name, words in HEALTH.items():
        yield f"attn_layer_{name}", words, OF_LAYER, list(_of_layers(report, found, name))
    counts: list[Sample] = [
        ((report.read.source, rule), sum(alarm.rule == rule for alarm in found.alarms))
        for rule in RULES
    ]
    yield "attn_alarms", "layers in which the rule holds", ("model", "rule"), counts


def _of_heads(report: ModelReport, name: str) -> Iterator[Sample]:
    for call in report.calls:
        layer = _number(call.facts.layer, call.facts.place)
        for head in call.heads:
            if not math.isnan(value := head.figure(name)):
                yield (report.read.source, head.stack, layer, str(head.head)), value


def _number(layer: int, place: CallPlace) -> str:
    """A layer by its number, with that of the call where one makes several."""
    return f"{layer}.{place.piece}" if place.piece else str(layer)


def _of_layers(report: ModelReport, health: Health, name: str) -> Iterator[Sample]:
    for layer in health.layers:
        number = _number(layer.layer, layer.place)
        if not math.isnan(value := layer.mean(name)):
            yield (report.read.source, layer.stack, number), value
