"""The scheduler's volume plugins, against kube-scheduler's own: why, and what is written."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugin import Plugin, without_reason
from koord_scheduler.plugins.volumes.binding import VolumeWrite, check_bindings
from koord_scheduler.plugins.volumes.columns import VolumeColumns
from koord_scheduler.plugins.volumes.node_volume_limits import NodeVolumeLimits
from koord_scheduler.plugins.volumes.objects import PersistentVolume
from koord_scheduler.plugins.volumes.usage import VOLUMES
from koord_scheduler.plugins.volumes.volume_binding import VolumeBinding
from koord_scheduler.plugins.volumes.volume_restrictions import VolumeRestrictions
from koord_scheduler.plugins.volumes.volume_zone import VolumeZone
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pod import placed_usage
from koord_scheduler.state.pod_class import PodClass, pod_class

from tests.conformance.vectors import Fields, Object, Vector, replay
from tests.support.prepared import prepared
from tests.support.storage_kinds import storage_objects

BINDING = VolumeBinding()
PLUGINS: list[Plugin] = [VolumeRestrictions(), NodeVolumeLimits(), BINDING, VolumeZone()]
CODES = {True: "Unschedulable", False: "UnschedulableAndUnresolvable"}


def columns(given: Object) -> ClusterState:
    """A cluster, of which some is known before the rest."""
    nodes, objects = prepared(PLUGINS, length=1), [*storage_objects(given)]
    pods = [read_pod(json.dumps(one).encode()) for one in given["pods"]]
    for one in objects[::2]:
        nodes.use(VolumeColumns).objects.set(one)
    for pod in pods[::2]:
        nodes.add_pod(pod.spec.node_name, placed_usage(pod, nodes))
    for document in given["nodes"]:
        nodes.set(read_node(json.dumps(document).encode()))
    for one in objects[1::2]:
        nodes.use(VolumeColumns).objects.set(one)
    for pod in pods[1::2]:
        nodes.add_pod(pod.spec.node_name, placed_usage(pod, nodes))
    return nodes


def ours(vector: Vector) -> Fields:
    given = vector.given
    nodes = columns(given)
    pod = pod_class(read_pod(json.dumps(given["pod"]).encode()), nodes.features.values())
    found = dict(decided("pod", pod, nodes, given))
    names = sorted(one["metadata"]["name"] for one in given["nodes"])
    fitting = [name for name in names if f"pod {name} writes" in found]
    chosen = next((one for one in fitting if not rejected(found, f"pod {one} ")), None)
    if chosen is None or not pod.of(VOLUMES).claims:
        return found
    row = nodes.row(chosen)
    assert row is not None
    BINDING.reserve(pod, nodes, row)
    following = pod_class(read_pod(json.dumps(given["next"]).encode()), nodes.features.values())
    return found | dict(decided("next", following, nodes, given)) | checked(pod, chosen, given)


def checked(pod: PodClass, name: str, given: Object) -> Fields:
    """How far binding is once everything was written, and the API has what comes ``after``."""
    nodes = columns(given)
    row, objects = nodes.row(name), nodes.use(VolumeColumns).objects
    volumes = BINDING.reserve(pod, nodes, row).volumes
    keys = [one.volume.key for one in volumes.static_bindings]
    keys += [one.key for one in volumes.dynamic_provisions]
    if not keys:
        return {}
    before = {(type(one), one.key) for one in storage_objects(bindable(given))}
    after = {(type(one), one.key): one for one in storage_objects(given["after"])}
    for kind, key in before - after.keys():
        objects.remove(kind, key)
    for one in after.values():
        objects.set(one)
    versions = dict.fromkeys(keys, "2000")
    progress = check_bindings(volumes, versions, name, nodes.labels.of(row), objects)
    return {"complete": progress.is_complete, "failed": bool(progress.failure)}


def bindable(given: Object) -> Object:
    return {kind: given[kind] for kind in ("pvs", "pvcs")}


def rejected(found: Fields, prefix: str) -> bool:
    return any(name.startswith(prefix) and not name.endswith("writes") for name in found)


def decided(
    who: str, pod: PodClass, nodes: ClusterState, given: Object
) -> Iterator[tuple[str, object]]:
    """Why plugins reject a pod, and what is written if VolumeBinding does not."""
    names = [one["metadata"]["name"] for one in given["nodes"]]
    rows = np.array([nodes.row(name) for name in names])
    before = next((one for one in PLUGINS if one.pre_filter(pod, nodes).rejection), None)
    if before is not None:
        assert not before.filter(pod, nodes)(rows).any()
        yield f"{who} {before.name}", before.pre_filter(pod, nodes).rejection
        return
    for plugin in PLUGINS:
        reasons, can_run = plugin.reasons(pod, nodes, rows), plugin.filter(pod, nodes)
        fits = np.ones(len(rows), np.bool_) if can_run is None else can_run(rows)
        assert fits.tolist() == without_reason(reasons, rows).tolist()
        for at, name in enumerate(names):
            here = {(CODES[one.resolvable], one.text) for one in reasons if one.rows[at]}
            if here:
                yield f"{who} {name} {plugin.name}", sorted(here)
            if plugin.name == "VolumeBinding" and not here:
                yield f"{who} {name} writes", written(pod, nodes, name, given)


def written(pod: PodClass, nodes: ClusterState, name: str, given: Object) -> Object:
    reservation = BINDING.reserve(pod, nodes, nodes.row(name))
    if reservation is None:
        return {}
    BINDING.unreserve(reservation, nodes)
    return dict(patched(one, given) for one in reservation.writes)


def patched(write: VolumeWrite, given: Object) -> tuple[str, Object]:
    """The claim of a volume, and the annotations of what is written, as they are then."""
    key, is_volume = write.assumed.key, isinstance(write.assumed, PersistentVolume)
    one = known(given, "pvs" if is_volume else "pvcs", key)
    metadata = one["metadata"]
    assert write.patch["metadata"]["resourceVersion"] == metadata["resourceVersion"]
    annotations = metadata.get("annotations", {}) | write.patch["metadata"].get("annotations", {})
    if not is_volume:
        return key, {"annotations": annotations}
    reference = write.patch.get("spec", {}).get("claimRef", one["spec"].get("claimRef"))
    return key, {"annotations": annotations, "claimRef": reference}


def known(given: Object, kind: str, key: str) -> Object:
    namespace, _, name = key.rpartition("/")
    found = (one for one in given[kind] if one["metadata"]["name"] == name)
    return next(one for one in found if one["metadata"].get("namespace", "") == namespace)


def theirs(recorded: Object) -> Fields:
    found: Object = dict(recorded.get("check", {}))
    for who in recorded.keys() & {"pod", "next"}:
        result = recorded[who]
        if before := result.get("prefilter"):
            found[f"{who} {before['plugin']}"] = before["reasons"][0]
        for name, node in result.get("nodes", {}).items():
            for plugin, one in node.get("rejected", {}).items():
                reasons = {(one["code"], reason) for reason in one["reasons"]}
                found[f"{who} {name} {plugin}"] = sorted(reasons)
            if "VolumeBinding" not in node.get("rejected", {}):
                writes = node.get("writes", {})
                both = writes.get("volumes", {}) | writes.get("claims", {})
                found[f"{who} {name} writes"] = {
                    key: {**one, "annotations": one["annotations"] or {}}
                    for key, one in both.items()
                }
    return found


def needless_write(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler writes a volume, too, that is, or is about to be, for the claim already."""
    if not field.endswith("writes") or field not in here or field not in there:
        return False
    before = here.get(f"pod {vector.recorded.get('assumedOn')} writes", {})
    for key in there[field].keys() - here[field].keys():
        of_user = known(vector.given, "pvs", key)["spec"].get("claimRef", {"uid": ""})["uid"]
        written = there[field][key]
        if written != before.get(key) and written["claimRef"]["uid"] != of_user:
            return False
    return all(one == there[field].get(key) for key, one in here[field].items())


def not_translated(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """An in-tree volume that CSI cannot serve is an error there, and nothing is tried again."""
    recorded, reasons = str(there.get(field)), str(here.get(field))
    return "'Error', 'could not translate" in recorded and "could not translate" in reasons


def test_the_volume_plugins_decide_as_those_of_kube_scheduler() -> None:
    replay("scheduler_volumes", ours, theirs, (needless_write, not_translated))
