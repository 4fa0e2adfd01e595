"""What hooks answer to the proxy, against Koordinator's own plugins."""

from __future__ import annotations

import json
import math
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict
from koord_hooks.protocol import answer
from koord_hooks.runner import load as load_plugins
from koord_hooks.stages import Stage
from koord_model import cpuset
from koord_model.keys import ANNOTATION_CPU_QUOTA_ASKED
from koord_model.node import Kernel, NodeView, SharedPool, Topology
from koord_model.node_document import normalization_ratio
from koord_model.node_slo_document import parse
from koord_proto import hook_pb2 as pb

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay

CPU_QOS = "koordinator.sh/cpuQOS"
DEVICES = "scheduling.koordinator.sh/device-allocated"
EXTENDED = "node.koordinator.sh/extended-resource-spec"
QOS = "koordinator.sh/qosClass"
STATUS = "scheduling.koordinator.sh/resource-status"

BVT = "cpu.bvt_warp_ns"
RUNNER = load_plugins(
    ["batchresource", "cpunormalization", "cpusetallocator", "gpuenvinject", "groupidentity"]
)


def view(given: Object) -> NodeView:
    slo, _ = parse(given["slo"])
    ratio, _ = normalization_ratio(given["node"])
    return NodeView(
        topology=_topology(given["nrt"]["metadata"]["annotations"]) if given["nrt"] else None,
        cpu_normalization_ratio=ratio,
        slo=slo,
        kernel=Kernel(knobs=frozenset({BVT})),
    )


def _topology(annotations: dict[str, str]) -> Topology:
    def reported(key: str, usual: Any) -> Any:
        return json.loads(annotations.get(key, "null")) or usual

    pools = reported("node.koordinator.sh/cpu-shared-pools", [])
    system = reported("node.koordinator.sh/system-qos-resource", {"cpuset": ""})
    policy = reported("kubelet.koordinator.sh/cpu-manager-policy", {"policy": "none"})
    return Topology(
        shared_pools=tuple(SharedPool(one["node"], one["cpuset"]) for one in pools),
        system_cpuset=system["cpuset"],
        kubelet_policy=policy["policy"],
    )


def ours(vector: Vector) -> dict[str, Any]:
    given = vector.given
    if "pod" in given:
        request: Any = ParseDict(given["pod"], pb.PodSandboxHookRequest())
    else:
        request = ParseDict(given["container"], pb.ContainerResourceHookRequest())
    response, outcome = answer(RUNNER, Stage(given["stage"]), request, view(given))
    assert outcome.failures == ()
    found = flat(MessageToDict(response, preserving_proto_field_name=True))
    if BVT in outcome.patch.knobs:
        found[BVT] = str(outcome.patch.knobs[BVT])
    return found


def theirs(recorded: Object) -> dict[str, Any]:
    found = flat(recorded["response"])
    if "bvt" in recorded:
        found[BVT] = str(recorded["bvt"])
    return found


def flat(response: Object) -> dict[str, Any]:
    """The ends, as text: JSON of protobuf has large numbers as texts. Without the pod's echo."""
    found = {name.removeprefix("container_"): str(end) for name, end in leaves(response).items()}
    return {name: end for name, end in found.items() if name not in _ECHOED}


_ECHOED = {f"annotations.{name}" for name in (EXTENDED, STATUS, DEVICES, CPU_QOS)}
_QUOTA = "resources.cpu_quota"
_CPUS = "resources.cpuset_cpus"


class Asked:
    """What a vector is about."""

    def __init__(self, vector: Vector) -> None:
        pod, container = vector.given.get("pod"), vector.given.get("container")
        asked = pod or container
        self.resources = asked.get("resources") or asked.get("container_resources") or {}
        self.qos = (asked.get("labels") or asked.get("pod_labels") or {}).get(QOS, "")
        self.annotations = asked.get("annotations") or asked["pod_annotations"]
        self.env = asked.get("container_envs", {})
        self.ratio = view(vector.given).cpu_normalization_ratio

    def annotation(self, name: str) -> Object:
        try:
            return dict(json.loads(self.annotations.get(name, "{}")))
        except (TypeError, ValueError):
            return {}


def period(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Batch pods' quotas are for the container's own period."""
    asked = Asked(vector)
    if field != _QUOTA or asked.qos != "BE" or _QUOTA not in there or _QUOTA not in here:
        return False
    own = asked.resources.get("cpu_period", 100_000)
    return int(here[field]) == max(1000, -(-int(there[field]) * own // 100_000))


def normalized(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """No quota becomes less than the kernel takes; a pod's own is divided at once."""
    asked = Asked(vector)
    given = asked.resources.get("cpu_quota", 0)
    if field != _QUOTA or asked.ratio <= 1 or asked.qos not in ("", "LS", "other"):
        return False
    wanted = math.ceil(given / asked.ratio)
    kept = there.get(field) in (str(given), str(wanted))
    return kept and given > 0 and here.get(field) == str(max(1000, wanted))


def unreadable_status(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Whether a pod shares CPUs is not known where that cannot be read: its quota stays."""
    asked = Asked(vector)
    given = asked.resources.get("cpu_quota", 0)
    if field != _QUOTA or asked.annotations.get(STATUS) not in ("x", "[]"):
        return False
    return here.get(field) == str(given) and there.get(field) == str(math.ceil(given / asked.ratio))


def remembered(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """What was asked for before the division is kept beside it."""
    del there
    given = Asked(vector).resources.get("cpu_quota", 0)
    return field == f"annotations.{ANNOTATION_CPU_QUOTA_ASKED}" and (
        here[field] == f"{given} as {here[_QUOTA]}"
    )


def batch_quota(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A BE pod keeps its quota on CPUs of its own."""
    asked = Asked(vector)
    return (
        field == _QUOTA
        and asked.qos == "BE"
        and bool(asked.annotation(STATUS).get("cpuset"))
        and there.get(field) == "-1" != here.get(field)
    )


def unreadable_cpus(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A cpuset that is none changes nothing, where there it is written."""
    asked = Asked(vector)
    if asked.annotation(STATUS).get("cpuset") != "7-6x" or field not in (_QUOTA, _CPUS):
        return False
    if field == _CPUS:
        return there.get(_CPUS) == "7-6x" and here.get(field) == asked.resources.get("cpuset_cpus")
    return there.get(_QUOTA) == "-1"


def shortest(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """CPU lists are written in the kernel's shortest form, and without gaps."""
    del vector
    if field != _CPUS or field not in here or "x" in there.get(field, "x"):
        return False
    parts = ",".join(one for one in there[field].split(",") if one)
    return here[field] in (parts, cpuset.render(cpuset.parse(parts)))


def empty_pools(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Pools without CPUs leave the cpuset alone: an empty one would lift every bound."""
    if field != _CPUS or field in there or not vector.given["nrt"]:
        return False
    asked, pools = Asked(vector), view(vector.given).topology
    nodes = [one.get("node") for one in asked.annotation(STATUS).get("numaNodeResources", ())]
    shared = pools.shared_pools if pools else ()
    some = [pool.cpuset for pool in shared if pool.numa_node in nodes] if nodes else []
    empty = not any(some) if nodes else False
    return (empty or not any(pool.cpuset for pool in shared)) and (
        here.get(field) == asked.resources["cpuset_cpus"]
    )


def preloaded(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """What a container preloads itself stays, after the library."""
    own = Asked(vector).env.get("LD_PRELOAD", "")
    return field == "envs.LD_PRELOAD" and here.get(field) == f"{there.get(field)}:{own}"


def cores_alone(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A part of a GPU without an amount of memory is limited in its cores at least."""
    if field not in ("envs.LD_PRELOAD", "envs.CUDA_DEVICE_SM_LIMIT"):
        return False
    part = Asked(vector).annotation(DEVICES)["gpu"][0]["resources"]
    own = Asked(vector).env.get("LD_PRELOAD")
    wanted = {
        "envs.LD_PRELOAD": ":".join(filter(None, ("/usr/local/vgpu/libvgpu.so", own))),
        "envs.CUDA_DEVICE_SM_LIMIT": part.get("koordinator.sh/gpu-core"),
    }
    return "koordinator.sh/gpu-memory" not in part and here.get(field) == wanted[field]


DIFFERENCES = (
    period, normalized, unreadable_status, remembered, batch_quota, unreadable_cpus, shortest,
    empty_pools, preloaded, cores_alone,
)  # fmt: skip
DECISIONS = {
    "own CPU strategy": "Enabled where it says nothing, without what is out of range; nothing "
    "if unreadable, or where no class has identities.",
    "no containers": "An annotation that names no container says nothing.",
}
"""How inputs read otherwise; what Koordinator made of them, so read, is recorded too."""


def test_responses() -> None:
    replay("hook_response", ours, theirs, DIFFERENCES, DECISIONS)
