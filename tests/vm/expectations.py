"""The pods that run on the node, and what the kernel must hold for each: the table to extend.

A row is what the API server says of a pod, and what is then expected in files of cgroup v2.
Files that a row does not name are read and shown, but not judged. The node has CPUs 0-1.
"""

from __future__ import annotations

import dataclasses

from koord_model import keys
from koord_model.qos import KubeQoS

from tests.support.pod_cases import MIB, PodCase, batch, own_cpus, qos

READ = (
    *("cpu.max", "cpu.max.burst", "cpu.weight", "cpu.idle"),
    *("cpuset.cpus", "cpuset.cpus.effective"),
    *("memory.max", "memory.high", "memory.low", "memory.min"),
)
"""What is read of each container's and each pod's group, where the kernel has it."""


# 1024 shares are weight 39 to runc, 512 are 20, 102 are 4, and 2 are 1.
LSE = PodCase(
    "lse",
    KubeQoS.GUARANTEED,
    labels=qos("LSE"),
    annotations=own_cpus("0"),
    cpu_request=1000,
    cpu_limit=1000,
    memory_limit=64 * MIB,
    container={
        "cpu.max": "max 100000",
        "cpu.weight": "39",
        "cpuset.cpus": "0",
        "cpuset.cpus.effective": "0",
        "memory.max": str(64 * MIB),
    },
    # Its own CPUs are its limit: a quota could only throttle it.
    pod={"cpu.max": "max 100000", "cpu.weight": "39", "memory.max": str(64 * MIB)},
)
LSR = dataclasses.replace(LSE, name="lsr", labels=qos("LSR"))
LS = PodCase(
    "ls",
    KubeQoS.BURSTABLE,
    labels=qos("LS"),
    cpu_request=100,
    memory_limit=64 * MIB,
    container={
        "cpu.max": "max 100000",
        "cpu.weight": "4",
        # LSE and LSR pods have CPU 0 for themselves; the rest is shared.
        "cpuset.cpus": "1",
        "cpuset.cpus.effective": "1",
        "memory.max": str(64 * MIB),
    },
    pod={"cpu.max": "max 100000", "cpu.weight": "4", "memory.max": str(64 * MIB)},
)
BE = PodCase(
    "be",
    KubeQoS.BEST_EFFORT,
    labels=qos("BE"),
    annotations=batch(main=(500, 128 * MIB)),
    container={
        "cpu.max": "50000 100000",
        "cpu.weight": "20",
        "cpuset.cpus.effective": "0-1",
        "memory.max": str(128 * MIB),
    },
    pod={
        "cpu.max": "50000 100000",
        "cpu.weight": "20",
        "memory.max": str(128 * MIB),
    },
)
SYSTEM = dataclasses.replace(LS, name="system", labels=qos("SYSTEM"))
PLAIN = PodCase(
    "plain",
    KubeQoS.BEST_EFFORT,
    container={
        "cpu.max": "max 100000",
        "cpu.weight": "1",
        "cpuset.cpus.effective": "0-1",
        "memory.max": "max",
    },
    pod={"cpu.max": "max 100000", "cpu.weight": "1", "memory.max": "max"},
)

PODS = (LSE, LSR, LS, BE, SYSTEM, PLAIN)

SCORED = dataclasses.replace(
    BE,
    name="scored",
    annotations={**batch(main=(250, 64 * MIB)), keys.ANNOTATION_OOM_SCORE_ADJ: "777"},
    container={
        **BE.container,
        "cpu.max": "25000 100000",
        "cpu.weight": "10",
        "memory.max": str(64 * MIB),
    },
    pod={"cpu.max": "25000 100000", "cpu.weight": "10", "memory.max": str(64 * MIB)},
)
"""A batch pod with an OOM score, for a koordlet with every plugin."""

NODE_RULES = """
kind: NodeSLO
spec:
  resourceQOSStrategy:
    policies: {cpuPolicy: groupIdentity}
    lsClass: {cpuQOS: {enable: true, groupIdentity: 2}}
    beClass: {cpuQOS: {enable: true, groupIdentity: -1}}
"""

UNHOOKED_BE = PLAIN.container
"""What a batch pod has where koordlet could not be asked: what the kubelet knows."""
