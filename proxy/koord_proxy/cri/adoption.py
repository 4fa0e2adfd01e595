"""Records of pods and containers the proxy did not see made, from what the runtime says.

The status messages have names, labels and annotations. What hooks also want to
know (cgroup parent, limits, environment) is in the verbose info, a JSON text
whose shape is the runtime's own: containerd's and cri-o's are read, and where
one has less, the record has less.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec
from koord_model.resources import RESOURCE_FIELDS
from koord_proto import cri_pb2 as cri

from koord_proxy.cri.hook_requests import pod_hook_request
from koord_proxy.rules.merge import ContainerHookRequest
from koord_proxy.rules.records import RecordKind, RuntimeRecord


def pod_record(id: str, response: cri.PodSandboxStatusResponse) -> RuntimeRecord:  # noqa: A002
    """The record of a pod sandbox the runtime describes."""
    status, info = response.status, _info(response.info)
    config = cri.PodSandboxConfig(labels=status.labels, annotations=status.annotations)
    config.metadata.CopyFrom(status.metadata)
    linux = _at(info, "config", "linux")
    config.linux.cgroup_parent = str(linux.get("cgroup_parent") or _parent_of(info))
    hook_request = pod_hook_request(config, status.runtime_handler)
    return RuntimeRecord(RecordKind.POD, id, hook_request)


def container_record(id: str, response: cri.ContainerStatusResponse) -> RuntimeRecord:  # noqa: A002
    """The record of a container the runtime describes; its pod is known by name only."""
    status, info = response.status, _info(response.info)
    hook_request = ContainerHookRequest(container_annotations=status.annotations)
    hook_request.container_meta.name = status.metadata.name
    hook_request.container_meta.attempt = status.metadata.attempt
    hook_request.container_meta.id = id
    # The kubelet labels each container with its pod.
    hook_request.pod_meta.name = status.labels.get("io.kubernetes.pod.name", "")
    hook_request.pod_meta.namespace = status.labels.get("io.kubernetes.pod.namespace", "")
    hook_request.pod_meta.uid = status.labels.get("io.kubernetes.pod.uid", "")
    hook_request.pod_cgroup_parent = _parent_of(info)
    _limits(hook_request, status, info)
    _environment(hook_request, info)
    return RuntimeRecord(RecordKind.CONTAINER, id, hook_request, str(info.get("sandboxID") or ""))


def _info(info: Mapping[str, str]) -> dict[str, Any]:
    """The verbose info; whatever cannot be read of it is as if it were not there."""
    try:
        value = msgspec.json.decode(info.get("info", "{}"))
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _at(value: Any, *path: str) -> dict[str, Any]:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _parent_of(info: dict[str, Any]) -> str:
    """The pod's cgroup, from that of its sandbox or container, as the kubelet would say it."""
    path = str(_at(info, "runtimeSpec", "linux").get("cgroupsPath", ""))
    if ":" in path:
        # systemd's: slice, prefix, name; the slice a-b.slice lies in a.slice.
        parts = path.split(":")[0].removesuffix(".slice").split("-")
        slices = ("-".join(parts[:count]) for count in range(1, len(parts) + 1))
        return "".join(f"/{name}.slice" for name in slices)
    return path.rpartition("/")[0] if path.startswith("/") else ""


def _limits(
    hook_request: ContainerHookRequest, status: cri.ContainerStatus, info: dict[str, Any]
) -> None:
    target = hook_request.container_resources
    if status.resources.HasField("linux"):
        target.MergeFromString(status.resources.linux.SerializeToString())
    spec = _at(info, "runtimeSpec", "linux", "resources")
    for field in RESOURCE_FIELDS:
        if field.oci is not None:
            section, key = field.oci
            _put(target, field.cri, _at(spec, section).get(key))
    _put(target, "oom_score_adj", _at(info, "runtimeSpec", "process").get("oomScoreAdj"))
    for name, value in _at(spec, "unified").items():
        target.unified[name] = str(value)


def _put(target: object, name: str, value: Any) -> None:
    """Set a field to what a runtime says, if the field can hold it."""
    with contextlib.suppress(TypeError, ValueError):
        if value is not None:
            setattr(target, name, value)


def _environment(hook_request: ContainerHookRequest, info: dict[str, Any]) -> None:
    """The variables the kubelet gave: by name from the config, by value from the spec.

    The spec has the image's as well, and runtimes differ in how they write the
    config's values.
    """
    config = _list(_at(info, "config").get("envs"))
    given = {str(entry.get("key")) for entry in config if isinstance(entry, dict)}
    for entry in _list(_at(info, "runtimeSpec", "process").get("env")):
        name, _, value = str(entry).partition("=")
        if name in given:
            hook_request.container_envs[name] = value
