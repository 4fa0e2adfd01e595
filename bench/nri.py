"""Cost that koordlet adds to a CreateContainer over NRI.

The runtime is a test double that speaks as containerd does: the time from its request
written to the answer understood is what containerd would wait, and a little more, as
the double is Python too.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
from pathlib import Path
from time import perf_counter

from koord_model.keys import (
    ANNOTATION_EXTENDED_RESOURCE_SPEC,
    ANNOTATION_RESOURCE_STATUS,
    BATCH_CPU,
    BATCH_MEMORY,
    LABEL_QOS,
)
from koord_proto import nri_pb2 as pb

from bench import programs
from bench.report import Measure
from tests.support.nri_runtime import NriRuntime

CALLS = 400


def measure(rounds: int) -> list[Measure]:
    """The p50 over batch and latency-sensitive containers in turns, with all plugins on."""
    with tempfile.TemporaryDirectory(prefix="koord-bench-") as name:
        seconds = asyncio.run(_measure(Path(name), rounds))
    p50, p99 = statistics.median(seconds), statistics.quantiles(seconds, n=100)[98]
    return [
        Measure("NRI CreateContainer, all plugins, p50", "ms", p50 * 1e3, "", None, 2.0),
        Measure("NRI CreateContainer, all plugins, p99", "ms", p99 * 1e3, "", None, None),
    ]


async def _measure(scratch: Path, rounds: int) -> list[float]:
    async with NriRuntime(scratch / "nri.sock") as runtime:
        flags = ["--hook-plugins=all", f"--runtime-hooks-nri-socket-path={runtime.socket}"]
        with programs.koordlet(scratch / "koordlet.sock", scratch / "hooks", *flags):
            async with asyncio.timeout(30):
                while not runtime.plugins:
                    await asyncio.sleep(0.01)
            seconds = []
            for number in range(CALLS * rounds):
                request = _batch(number) if number % 2 else _sensitive(number)
                started = perf_counter()
                await runtime.ask("CreateContainer", request, pb.CreateContainerResponse)
                seconds.append(perf_counter() - started)
                # The runtime has other work between two containers.
                await asyncio.sleep(0.001)
            return seconds


def _batch(number: int) -> pb.CreateContainerRequest:
    amounts = {BATCH_CPU: 500 + number % 7, BATCH_MEMORY: "128Mi"}
    spec = {"containers": {"main": {"requests": amounts, "limits": amounts}}}
    return _request(number, "BE", {ANNOTATION_EXTENDED_RESOURCE_SPEC: json.dumps(spec)})


def _sensitive(number: int) -> pb.CreateContainerRequest:
    return _request(number, "LSR", {ANNOTATION_RESOURCE_STATUS: '{"cpuset":"0"}'})


def _request(number: int, qos: str, annotations: dict[str, str]) -> pb.CreateContainerRequest:
    sandbox = pb.PodSandbox(
        id=f"s{number}",
        name=f"pod-{number}",
        namespace="bench",
        uid=f"uid-{number}",
        labels={LABEL_QOS: qos},
        annotations=annotations,
    )
    sandbox.linux.cgroup_parent = f"/kubepods/besteffort/pod{number}"
    env = [f"SERVICE_{index}=10.0.0.{index}" for index in range(20)]
    container = pb.Container(id=f"c{number}", pod_sandbox_id=sandbox.id, name="main", env=env)
    return pb.CreateContainerRequest(pod=sandbox, container=container)
