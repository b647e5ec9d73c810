"""Sources: where a layer's projections come from — the file, a file of their own, or a draw."""

from __future__ import annotations

from attn_cli.core.dump import Dump
from attn_cli.core.findings import Finding, note
from attn_cli.errors import InputError
from attn_cli.recognize.listing import listing, some
from attn_cli.recognize.origin import speaking_of
from attn_cli.recognize.parameters import Parameters, find_parameters
from attn_cli.recognize.roles import Roles
from attn_cli.recognize.settings import Asked
from attn_cli.recognize.tables import table_names


def weights_file(dump: Dump) -> Parameters | None:
    """The layer in a file of its own; None where it only holds a table of positions.

    Raises InputError, naming the file, where it holds neither.
    """
    with speaking_of(dump.source):
        parameters = find_parameters(dump)
        if parameters is None and not table_names(dump, "positions", "relative"):
            raise InputError(
                f"the weights hold no projections by a known name: {listing(dump)}",
                hint="known are w_q, q_proj.weight, query.weight, to_q.weight and their like, and "
                "qkv.weight, c_attn.weight, in_proj_weight for all three",
            )
    return parameters


def said_of_weights_file(dump: Dump, parameters: Parameters | None) -> tuple[Finding, ...]:
    """What the reader said of the file, and a note on arrays that are no part of the layer."""
    used = set() if parameters is None else {*parameters.names, *parameters.beside}
    used |= set(table_names(dump, "positions", "relative"))
    left = [name for name in dump.arrays if name not in used]
    if not left:
        return dump.findings
    said = note("ignored-arrays", f"not used of {dump.source}: {some(left)}")
    return (*dump.findings, said)


def one_source(roles: Roles, asked: Asked, weights: Parameters | None) -> Parameters | None:
    """The matrices to read; None where there are none, or where they are drawn.

    Raises InputError where there are two sources, and for an option that has nothing to act on.
    """
    own, sources = roles.layer, []
    if own is not None:
        sources.append(f"the projections in the file ({some(own.weights.values())})")
    if weights is not None:
        sources.append(f"those of {weights.dump.source}")
    if asked.choices.init is not None:
        sources.append(f"those that {asked.origin('init')} draws")
    if len(sources) > 1:
        raise InputError(
            f"{sources[0]} and {sources[1]}: expected projections from one place",
            hint="leave one of them out",
        )
    if asked.told("weights_layout") and own is None and weights is None:
        raise InputError(
            f"{asked.origin('weights_layout')} says how projections lie in a file, and there are "
            "none"
        )
    if asked.told("seed") and asked.choices.init is None:
        raise InputError(
            f"{asked.origin('seed')} was given, and nothing is drawn",
            hint="--init xavier, normal or default draws projections",
        )
    return weights or own


def check_nothing_to_make(asked: Asked, weights: Parameters | None) -> None:
    """Raises InputError where q, k and v are given and something was asked for that makes them."""
    for name in ("init", "seed", "weights_layout", "d_k", "d_v"):
        if asked.told(name):
            raise InputError(
                f"{asked.origin(name)} is for token vectors, and the file holds q, k and v",
                hint="they already are projected",
            )
    if weights is not None:
        raise InputError(
            f"the weights, {weights.dump.source}, are for token vectors, and the file holds q, k "
            "and v",
            hint="they already are projected",
        )
