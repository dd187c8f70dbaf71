"""Topologies as JSON: one document, each cell written once however often it is used.

::

    {"format": "detol-topology", "version": 1,
     "cells": [{"nodes": {...}, "edges": [...]}],
     "nodes": {"input": {"op": "input"}, "a": {"op": "conv", "with": {"kernel": 5}}, "b": {"cell": 0}, ...},
     "edges": [["input", "a"], ["a", "b"], ...]}

A cell comes before the cells that use it. Meta-parameters that are left out take their defaults; the writer leaves
none out, so a default that changes one day does not change what is stored.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from detol.errors import TopologyError
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology

FORMAT = "detol-topology"
VERSION = 1


def to_json(topology: Topology) -> str:
    """Return the topology as one line of JSON; ``from_json`` gives an equal topology back.

    Raises:
        TopologyError: a meta-parameter that JSON cannot hold (a float that is not finite).
    """
    cells: list[dict[str, Any]] = []
    body = _body(topology, cells, {})
    document = {"format": FORMAT, "version": VERSION, "cells": cells, **body}
    try:
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise TopologyError("a meta-parameter in JSON is a finite number: replace NaN or infinity") from None


def from_json(text: str) -> Topology:
    """Return the topology that a JSON document describes.

    Raises:
        TopologyError: not JSON, not a topology's document, another version, an unknown operation or meta-parameter,
            a value against its rule, or a graph that is not a valid topology.
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except (json.JSONDecodeError, RecursionError) as error:
        raise TopologyError(f"a topology is a JSON document, got {text[:40]!r}: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise TopologyError(f'a topology\'s JSON says "format": "{FORMAT}", got {text[:40]!r}')
    if document.get("version") != VERSION:
        raise TopologyError(
            f"topology JSON has version {VERSION} here, got {document.get('version')!r}: "
            "read it with the detol that wrote it"
        )
    cells: list[Topology] = []
    for number, body in enumerate(_typed(document.get("cells", []), list, "cells", "a list")):
        cells.append(_topology(body, cells, f"cell {number}"))
    return _topology(document, cells, "the topology")


def _body(topology: Topology, cells: list[dict[str, Any]], known: dict[int | str, int]) -> dict[str, Any]:
    """Return nodes and edges; cells that they need go to ``cells``, ``known`` by their identity and by their text."""
    nodes: dict[str, Any] = {}
    for name, node in topology.nodes.items():
        if isinstance(node, Operation):
            nodes[name] = {"op": node.kind, "with": dict(node.parameters)} if node.parameters else {"op": node.kind}
            continue
        if id(node) not in known:
            body = _body(node, cells, known)
            text = json.dumps(body)
            if text not in known:
                known[text] = len(cells)
                cells.append(body)
            known[id(node)] = known[text]
        nodes[name] = {"cell": known[id(node)]}
    return {"nodes": nodes, "edges": [list(edge) for edge in topology.edges]}


def _topology(body: Any, cells: Sequence[Topology], where: str) -> Topology:
    _typed(body, dict, where, "an object")
    nodes = _typed(body.get("nodes"), dict, f"nodes of {where}", "an object")
    edges = _typed(body.get("edges"), list, f"edges of {where}", "a list")
    for edge in edges:
        if not (isinstance(edge, list) and len(edge) == 2 and all(isinstance(end, str) for end in edge)):
            raise TopologyError(f"edges of {where}: each is a pair of node names, got {json.dumps(edge)}")
    return Topology({name: _node(node, cells, f"node {name!r} of {where}") for name, node in nodes.items()}, edges)


def _node(node: Any, cells: Sequence[Topology], where: str) -> Operation | Topology:
    _typed(node, dict, where, "an object")
    if node.keys() == {"cell"}:
        number = node["cell"]
        if type(number) is not int or not 0 <= number < len(cells):
            raise TopologyError(f"{where}: there is no cell {number!r} before it")
        return cells[number]
    if not {"op"} <= node.keys() <= {"op", "with"} or not isinstance(node["op"], str):
        raise TopologyError(
            f'{where}: a node is {{"op": KIND, "with": {{...}}}} or {{"cell": NUMBER}}, got {sorted(node)}'
        )
    parameters: Mapping[str, Any] = _typed(node.get("with", {}), dict, f'"with" of {where}', "an object")
    for name, value in parameters.items():
        if isinstance(value, dict | list):
            raise TopologyError(f"{where}: {name} is one value, got {json.dumps(value)[:40]}")
    try:
        return op(node["op"], **parameters)
    except TopologyError as error:
        raise TopologyError(f"{where}: {error}") from None


def _typed(value: Any, kind: type, where: str, rule: str) -> Any:
    if not isinstance(value, kind):
        raise TopologyError(f"{where}: must be {rule}, got {json.dumps(value)[:40]}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise TopologyError(f"a name is given once, got {next(n for n in names if names.count(n) > 1)!r} twice")
    return found
