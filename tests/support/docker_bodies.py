"""Bodies as cri-dockerd 0.3 sent them to dockerd 28, and dockerd's answers, recorded and cut.

Members that the proxy does not read are there as examples of their kinds, not all of them.
"""

from __future__ import annotations

import json
from typing import Any

UID = "fdfed563-b6de-4249-a058-9dfb53cf8db0"
SANDBOX = "22a33977bdbc1d6ddf8c8d114b6a9c23d88245918752d3775daa42d345a78594"
CONTAINER = "ce0c0145940aaf7acec28ae0fe5351e506b865131669e3ea90fc52a17b09af43"
SANDBOX_NAME = f"k8s_POD_life_default_{UID}_0"
CONTAINER_NAME = f"k8s_main_life_default_{UID}_2"
PARENT = f"kubepods-besteffort-pod{UID.replace('-', '_')}.slice"
PARENT_PATH = f"/kubepods.slice/kubepods-besteffort.slice/{PARENT}"
SPEC = '{"containers": {"main": {"limits": {"kubernetes.io/batch-cpu": "500"}}}}'

POD_LABELS = {
    "io.kubernetes.pod.name": "life",
    "io.kubernetes.pod.namespace": "default",
    "io.kubernetes.pod.uid": UID,
}
SANDBOX_LABELS = {
    "annotation.node.koordinator.sh/extended-resource-spec": SPEC,
    "io.kubernetes.container.name": "POD",
    "io.kubernetes.docker.type": "podsandbox",
    **POD_LABELS,
    "koordinator.sh/qosClass": "BE",
}
CONTAINER_LABELS = {
    "annotation.io.kubernetes.container.hash": "3b8a6f5c",
    "io.kubernetes.container.logpath": "",
    "io.kubernetes.container.name": "main",
    "io.kubernetes.docker.type": "container",
    **POD_LABELS,
    "io.kubernetes.sandbox.id": SANDBOX,
}
ENV = ["A=1", "KUBERNETES_SERVICE_HOST=10.96.0.1", 'U=grüße "q" \\ <&>']
RESOURCES = {
    "CpuShares": 0,
    "Memory": 0,
    "NanoCpus": 0,
    "CgroupParent": "",
    "BlkioWeightDevice": None,
    "CpuPeriod": 0,
    "CpuQuota": 0,
    "CpusetCpus": "",
    "CpusetMems": "",
    "Devices": [],
    "MemorySwap": 0,
    "PidsLimit": None,
}
LIMITED = {
    "CpuShares": 2,
    "Memory": 67108864,
    "CgroupParent": PARENT,
    "CpuPeriod": 100000,
    "CpuQuota": 50000,
    "MemorySwap": 67108864,
}


def text(body: Any) -> bytes:
    """JSON as Go writes it: no spaces, some characters escaped, a line feed at the end."""
    written = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return written.encode() + b"\n"


def sandbox_create() -> dict[str, Any]:
    return {
        "Hostname": "",
        "AttachStdin": False,
        "Env": None,
        "Cmd": None,
        "Image": "registry.k8s.io/pause:3.10",
        "Labels": dict(SANDBOX_LABELS),
        "HostConfig": {
            "LogConfig": {"Type": "", "Config": None},
            "NetworkMode": "host",
            "ConsoleSize": [0, 0],
            "OomScoreAdj": -998,
            "SecurityOpt": ["no-new-privileges"],
            "ShmSize": 67108864,
            **RESOURCES,
            "CpuShares": 2,
            "CgroupParent": PARENT,
        },
        "NetworkingConfig": None,
    }


def container_create() -> dict[str, Any]:
    return {
        "Hostname": "",
        "Env": list(ENV),
        "Cmd": None,
        "Healthcheck": {"Test": ["NONE"]},
        "Image": "pykoord.test/busybox:latest",
        "Entrypoint": ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 9 & wait $!"],
        "Labels": dict(CONTAINER_LABELS),
        "HostConfig": {
            "NetworkMode": f"container:{SANDBOX}",
            "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
            "OomScoreAdj": 1000,
            "Runtime": "runc",
            **RESOURCES,
            **LIMITED,
        },
        "NetworkingConfig": None,
    }


def update(**changed: int | str) -> dict[str, Any]:
    return {**RESOURCES, "RestartPolicy": {"Name": "", "MaximumRetryCount": 0}, **changed}


def sandbox_inspected() -> dict[str, Any]:
    return _inspected(SANDBOX, SANDBOX_NAME, sandbox_create())


def container_inspected() -> dict[str, Any]:
    return _inspected(CONTAINER, CONTAINER_NAME, container_create())


def _inspected(id: str, name: str, config: dict[str, Any]) -> dict[str, Any]:  # noqa: A002
    host = {**config.pop("HostConfig"), "Runtime": "runc", "OomKillDisable": False}
    del config["NetworkingConfig"]
    return {
        "Id": id,
        "Created": "2026-11-22T05:27:51.104409349Z",
        "State": {"Status": "running", "Running": True, "Pid": 6057},
        "Name": f"/{name}",
        "HostConfig": host,
        "Config": config,
        "NetworkSettings": {"Ports": {}},
    }


def listed(id: str, name: str, labels: dict[str, str], state: str = "running") -> dict[str, Any]:  # noqa: A002
    return {
        "Id": id,
        "Names": [f"/{name}"],
        "Created": 1795325271,
        "Ports": [],
        "Labels": labels,
        "State": state,
        "Status": "Up 2 seconds",
        "HostConfig": {"NetworkMode": "host"},
    }
