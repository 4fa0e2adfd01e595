"""Memory of koordlet while pods come and go: each minute, with everything switched on.

The node is simulated as in ``bench.strategies``: every gate and hook plugin is on. Each second
some pods end and as many begin, with their hook calls, so that each pod lives some minutes.
Figures are koordlet's own: its RSS, and what the metric cache says of itself.

    .venv/bin/python -m bench.koordlet_churn --minutes=60
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import grpc
from koord_hooks.stages import Stage, rpc_path
from koord_proto import hook_pb2 as pb
from koordlet.states_informer.state.pod_inventory import PodRecord

from bench.strategies import NODE_SLO, DecidedNode, PlainKoordlet, flags
from tests.support.caller import LIKE_A_KUBELET
from tests.support.processes import get

_MIB = 1 << 20
_PRESSURE = """some avg10=1.00 avg60=1.00 avg300=1.00 total=1
full avg10=0.00 avg60=0.00 avg300=0.00 total=0
"""


class PressedNode(DecidedNode):
    """Has the kernel's pressure files, too."""

    def _write_limits(self, name: str) -> None:
        super()._write_limits(name)
        for directory in self._directories(name):
            for resource in ("cpu", "memory", "io"):
                (directory / f"{resource}.pressure").write_text(_PRESSURE)


class Churn:
    """A koordlet on a simulated node whose pods are replaced, oldest first."""

    def __init__(self, directory: Path, pods: int, containers: int) -> None:
        self.node = PressedNode(directory / "node", pods=pods, containers=containers, cpus=16)
        self.ended = 0
        self._pods, slo = directory / "pods.json", directory / "nodeslo.yaml"
        self._tell()
        slo.write_text(json.dumps(NODE_SLO))
        self.koordlet = PlainKoordlet(
            directory,
            directory / "hookserver.d",
            *flags(self.node, self._pods, slo),
            "--hook-plugins=all",
            "--kubelet-sync-interval=1",
        )

    def second(self, channel: grpc.Channel, replaced: int) -> None:
        """All use something, the oldest pods end, and new ones begin."""
        for _ in range(replaced):
            self.node.remove_pod()
            _ask(channel, self.node.add_pod())
        self.ended += replaced
        self.node.advance(1.0)
        self._tell()

    def figures(self) -> dict[str, float]:
        """Memory in MiB, by what holds it; counts."""
        said = {}
        for line in get(self.koordlet.directory / "status.sock", "/metrics").splitlines():
            name, _, value = line.rpartition(" ")
            said[name.partition("{")[0]] = value
        return {
            "pods ended": self.ended,
            "RSS": self.koordlet.resident(),
            "metric cache": float(said["koordlet_metric_cache_memory_bytes"]) / _MIB,
            "series": float(said["koordlet_metric_cache_series"]),
        }

    def _tell(self) -> None:
        aside = self._pods.with_suffix(".new")
        aside.write_text(self.node.pod_list())
        aside.rename(self._pods)


def _ask(channel: grpc.Channel, record: PodRecord) -> None:
    """Send a proxy's requests about a pod that begins."""
    pod = record.pod
    meta = pb.PodSandboxMetadata(name=pod.name, namespace=pod.namespace, uid=pod.uid)
    sandbox = pb.PodSandboxHookRequest(
        pod_meta=meta, labels=dict(pod.labels), cgroup_parent=pod.cgroup_parent
    )
    _call(channel, Stage.PRE_RUN_POD_SANDBOX, sandbox)
    for container in record.containers.values():
        request = pb.ContainerResourceHookRequest(
            pod_meta=meta,
            container_meta=pb.ContainerMetadata(name=container.name),
            pod_labels=dict(pod.labels),
            pod_cgroup_parent=pod.cgroup_parent,
        )
        _call(channel, Stage.PRE_CREATE_CONTAINER, request)


def _call(channel: grpc.Channel, stage: Stage, request: object) -> None:
    channel.unary_unary(rpc_path(stage), type(request).SerializeToString)(request)  # type: ignore[attr-defined]


def run(minutes: float, pods: int, containers: int, a_second: int) -> None:
    """Print a line of figures each minute."""
    with tempfile.TemporaryDirectory(prefix="koord-churn-", dir="/dev/shm") as name:
        churn = Churn(Path(name), pods, containers)
        address = f"unix:{churn.koordlet.socket}"
        with churn.koordlet, grpc.insecure_channel(address, LIKE_A_KUBELET) as channel:
            began = time.monotonic()
            for number in range(int(minutes * 60) + 1):
                time.sleep(max(0.0, began + number - time.monotonic()))
                churn.second(channel, a_second)
                if number % 60 == 0:
                    _print(number // 60, churn.figures())
        errors = churn.koordlet.said.count("Traceback")
        sys.stdout.write(f"tracebacks: {errors}\n")


def _print(minute: int, figures: dict[str, float]) -> None:
    shown = ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
    sys.stdout.write(f"minute {minute}: {shown}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.koordlet_churn", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--pods", type=int, default=40)
    parser.add_argument("--containers", type=int, default=2)
    parser.add_argument("--a-second", type=int, default=1, help="pods replaced each second")
    given = parser.parse_args()
    run(given.minutes, given.pods, given.containers, given.a_second)


if __name__ == "__main__":
    main()
