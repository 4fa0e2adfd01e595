from __future__ import annotations

import pytest
from koord_model import cpuset
from koord_model.node_info import Processor
from koordlet.metrics_reporter.documents.kubelet_config import (
    KubeletConfig,
    parse,
    static_reserved,
    take_by_topology,
)


def test_defaults() -> None:
    assert parse({"kubeletconfig": {}}) == (KubeletConfig(), ())
    assert parse({}) == (KubeletConfig(), ())


def test_all_of_it() -> None:
    found, problems = parse(
        {
            "kubeletconfig": {
                "cpuManagerPolicy": "static",
                "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
                "topologyManagerPolicy": "restricted",
                "topologyManagerScope": "pod",
                "reservedSystemCPUs": "0,2",
                "kubeReserved": {"cpu": "500m", "memory": "1Gi"},
                "systemReserved": {"cpu": "1"},
                "evictionHard": {"memory.available": "100Mi"},
            }
        }
    )
    assert problems == ()
    options = {"full-pcpus-only": "true"}
    assert found == KubeletConfig("static", options, "restricted", "pod", "0,2", 1500)
    assert static_reserved(found, ()) == {0, 2}


def test_what_cannot_be_used_costs_only_itself() -> None:
    found, problems = parse(
        {
            "kubeletconfig": {
                "cpuManagerPolicy": 7,
                "cpuManagerPolicyOptions": [],
                "reservedSystemCPUs": "3-1",
                "kubeReserved": {"cpu": "much"},
                "systemReserved": {"cpu": "250m"},
            }
        }
    )
    assert found == KubeletConfig(reserved_millicores=250)
    assert [one.split()[2] for one in problems] == [
        "kubeletconfig.cpuManagerPolicy",
        "kubeletconfig.cpuManagerPolicyOptions",
        "kubeletconfig.reservedSystemCPUs",
        "kubeletconfig.kubeReserved.cpu",
    ]


def machine(numa: int, cores: int, threads: int) -> list[Processor]:
    total = numa * cores
    return [
        Processor(core + thread * total, core, core // cores, core // cores)
        for core in range(total)
        for thread in range(threads)
    ]


@pytest.mark.parametrize(
    ("number", "taken"),
    [
        (0, ""),
        (1, "0"),
        (2, "0,4"),
        (3, "0-1,4"),
        (4, "0-1,4-5"),
        (5, "0-2,4-5"),
        (7, "0-6"),
        (8, "0-7"),
        (9, "0-7"),
    ],
)
def test_reserved_cpus_are_packed_as_the_kubelet_packs_them(number: int, taken: str) -> None:
    """The kubelet's own example: of 8 CPUs with hyper-threads, two are 0 and 4."""
    assert cpuset.render(take_by_topology(machine(2, 2, 2), number)) == taken


def test_a_share_of_a_cpu_reserves_a_whole_one() -> None:
    config = KubeletConfig("static", reserved_millicores=1001)
    assert static_reserved(config, machine(1, 4, 2)) == {0, 4}
    assert static_reserved(KubeletConfig(reserved_millicores=1001), machine(1, 4, 2)) == set()
