from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.noderesource.core.gpu_resource import GATE_SHARED, gpu
from koord_model import keys

CARD = {keys.GPU_CORE: "100", keys.GPU_MEMORY: "80Gi", keys.GPU_MEMORY_RATIO: 100}
NPU = {keys.NPU_CORE: 20, keys.NPU_CPU: "7", keys.NPU_DVPP: "100", keys.GPU_MEMORY: "32Gi"}
ALL = {keys.GPU, keys.GPU_SHARED, *CARD, *NPU}
ON = {GATE_SHARED: True}
OFF = {GATE_SHARED: False}


def card(resources: Any = CARD, health: bool = True) -> dict[str, Any]:
    return {"type": "gpu", "health": health, "resources": resources}


def device(*cards: Any, **labels: str) -> dict[str, Any]:
    named = {f"node.koordinator.sh/gpu-{name}": value for name, value in labels.items()}
    rdma = {"type": "rdma", "health": True, "resources": {keys.RDMA: "100"}}
    return {"metadata": {"name": "n1", "labels": named}, "spec": {"devices": [*cards, rdma]}}


def present(desired: Any) -> dict[str, int]:
    assert desired.resources.keys() == ALL
    return {name: value for name, value in desired.resources.items() if value is not None}


NPUS = {
    keys.NPU_CORE: 40, keys.NPU_CPU: 14, keys.NPU_DVPP: 200, keys.GPU_MEMORY: 64 << 30,
}  # fmt: skip
CARDS = {keys.GPU_CORE: 200, keys.GPU_MEMORY: 160 << 30, keys.GPU_MEMORY_RATIO: 200}


@pytest.mark.parametrize(
    ("given", "gates", "expected"),
    [
        (device(card(), card(), card(health=False)), OFF, CARDS | {keys.GPU: 200}),
        (
            device(card(), card(), card(health=False)),
            ON,
            CARDS | {keys.GPU: 200, keys.GPU_SHARED: 200},
        ),
        # Only NVIDIA's cards and those of an unnamed vendor are whole ones.
        (device(card(), card(), vendor="nvidia"), OFF, CARDS | {keys.GPU: 200}),
        (device(card(), card(), vendor="metax"), OFF, CARDS),
        (device(card(NPU), card(NPU), vendor="huawei"), OFF, NPUS),
        (device(card(NPU), card(NPU)), OFF, NPUS),
    ],
)
def test_sums_over_the_healthy_ones(given: Any, gates: Any, expected: dict[str, int]) -> None:
    desired = gpu(given, gates)
    assert present(desired) == expected
    [name, amount] = next(iter(expected.items()))
    said = f"{name} {amount} (sum over healthy devices with healthy 2)"
    assert said in [str(one) for one in desired.decisions]


def test_labels_are_those_of_the_device() -> None:
    given = {"vendor": "nvidia", "model": "A100", "driver-version": "570", "other": "x"}
    assert gpu(device(card(), **given), OFF).labels == {
        keys.LABEL_GPU_VENDOR: "nvidia",
        keys.LABEL_GPU_MODEL: "A100",
        keys.LABEL_GPU_DRIVER_VERSION: "570",
    }
    assert gpu(device(card()), OFF).labels == {}


@pytest.mark.parametrize("given", [None, {}, device(), device(card(health=False), vendor="nvidia")])
def test_without_a_healthy_one_all_names_go_and_labels_stay(given: Any) -> None:
    desired = gpu(given, ON)
    assert desired.resources == dict.fromkeys(ALL)
    assert desired.labels == {}
    assert desired.decisions


def test_an_amount_that_cannot_be_read_costs_only_itself() -> None:
    bad = {**CARD, keys.GPU_MEMORY: "much", keys.GPU_MEMORY_RATIO: "-1"}
    desired = gpu(device(card(), card(bad)), OFF)
    assert present(desired)[keys.GPU_MEMORY] == 80 << 30
    assert present(desired)[keys.GPU_MEMORY_RATIO] == 100
    assert present(desired)[keys.GPU_CORE] == 200
    lines = [one.outcome for one in desired.decisions if "expected" in one.outcome]
    assert len(lines) == 2
    assert lines[0].startswith(f"Device n1 spec.devices[1].resources.{keys.GPU_MEMORY} is")


@given(st.lists(st.booleans(), max_size=8))
def test_unhealthy_ones_never_count(healths: list[bool]) -> None:
    everyone = gpu(device(*(card(health=one) for one in healths)), ON)
    healthy = gpu(device(*(card() for one in healths if one)), ON)
    assert everyone == healthy
