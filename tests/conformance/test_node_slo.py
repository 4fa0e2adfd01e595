"""What NodeSLOs say, against Koordinator's own merging."""

from __future__ import annotations

import json
import re
from typing import Any

from koord_manager.node_objects.core.nodes import read_node
from koord_manager.nodeslo.core.reconciler import desired
from koord_manager.nodeslo.core.rollout import Rollout
from koord_manager.slo_config.core.config import DEFAULTS, advance
from koord_model.quantity import whole

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay

NO_ROLLOUT = Rollout(dict, lambda: 0.0)


def ours(vector: Vector) -> dict[str, Any]:
    given = vector.given
    config, _ = advance(DEFAULTS, given["data"])
    spec, _ = desired(config, read_node(json.dumps(given["node"]).encode()), None, NO_ROLLOUT)
    return flat(spec)


def theirs(recorded: Object) -> dict[str, Any]:
    return flat(recorded["spec"])


def flat(spec: Object) -> dict[str, Any]:
    found = leaves(spec)
    bandwidth = "systemStrategy.totalNetworkBandwidth"
    if bandwidth in found:
        found[bandwidth] = whole(found[bandwidth])
    return found


def blocks(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A list for some nodes replaces the cluster's, where there it is laid over it by place."""
    found = _BLOCK.fullmatch(field)
    if not found or field in here:
        return False
    qos = json.loads(vector.given["data"]["resource-qos-config"])

    def listed(layer: Object) -> Any:
        return layer.get(found["class"], {}).get("blkioQOS", {}).get("blocks")

    replaced = [one for one in map(listed, qos["nodeStrategies"]) if one is not None]
    cluster = leaves(listed(qos["clusterStrategy"])[int(found["place"])])
    return bool(replaced) and cluster[found["rest"]] == there[field]


_BLOCK = re.compile(
    r"resourceQOSStrategy\.(?P<class>\w+)\.blkioQOS\.blocks\[(?P<place>\d)\]\.(?P<rest>.*)"
)
DIFFERENCES = (blocks,)
DECISIONS = {
    "keys out of range": "A key with a value that no node would take holds nowhere.",
    "bad bandwidth": "An annotation that is no bandwidth is passed over.",
    "bandwidth of some nodes": "Where it is not said for some nodes, that of the cluster holds.",
}
"""How inputs read otherwise; what Koordinator made of them, so read, is recorded too."""


def test_sections() -> None:
    replay("node_slo", ours, theirs, DIFFERENCES, DECISIONS)
