"""Parts of NPUs are those of their templates, and nothing else."""

from __future__ import annotations

import json

import pytest
from koord_model.device_allocated import ResourceAmounts, read_pod_devices, write_pod_devices
from koord_model.keys import GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED, NPU_CORE, NPU_CPU, NPU_DVPP
from koord_scheduler.plugins.device_share.candidates import DeviceRejection
from koord_scheduler.plugins.device_share.device_allocation import NO_TEMPLATE, allocate
from koord_scheduler.plugins.device_share.device_object import NodeDevice, NodeDevices
from koord_scheduler.plugins.device_share.device_scores import DeviceScorer
from koord_scheduler.plugins.device_share.gpu_templates import (
    DEFAULT_SOURCE,
    GPUTemplates,
    read_gpu_templates,
)
from koord_scheduler.plugins.device_share.node_device_state import NodeDeviceState

from tests.scheduler.plugins.device_share.device_cases import needs

GIB = 1 << 30
TEMPLATES = """
huawei-Ascend-310P3:
  vir02: {huawei.com/npu-core: 2, huawei.com/npu-cpu: "2", koordinator.sh/gpu-memory: 6Gi}
  vir02_dvpp: {huawei.com/npu-core: 2, huawei.com/npu-cpu: 2, huawei.com/npu-dvpp: 25,
    koordinator.sh/gpu-memory: 6Gi}
"""
NPU = (
    (NPU_CORE, 8),
    (NPU_CPU, 7),
    (NPU_DVPP, 100),
    (GPU_MEMORY, 21 * GIB),
    (GPU_MEMORY_RATIO, 100),
)
PART = {GPU_SHARED: 1, NPU_CORE: 2, NPU_CPU: 2, GPU_MEMORY: 6 * GIB}


def read(text: str) -> GPUTemplates:
    return read_gpu_templates(json.dumps({"data": {"data.yaml": text}}).encode())


def npus(resources: frozenset[str] = DEFAULT_SOURCE.resources) -> NodeDeviceState:
    has = NodeDevices(tuple(NodeDevice("gpu", minor, tuple(sorted(NPU))) for minor in range(2)))
    of_models = read(TEMPLATES).of_models(resources)
    return NodeDeviceState(has, templates=of_models["huawei-Ascend-310P3"])


def given(requests: dict[str, int], state: NodeDeviceState) -> list[tuple[int, str]] | str:
    found = allocate(needs(requests), state, DeviceScorer())
    if isinstance(found, DeviceRejection):
        return found.text
    assert read_pod_devices(write_pod_devices(found)) == found
    return [(one.minor, one.template) for one in found]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        (PART, [(0, "vir02")]),
        (PART | {NPU_DVPP: 25}, [(0, "vir02_dvpp")]),
        (PART | {NPU_DVPP: 50}, NO_TEMPLATE),
        (PART | {NPU_CPU: 1}, NO_TEMPLATE),
        ({NPU_CORE: 16, GPU_MEMORY_RATIO: 200}, [(0, ""), (1, "")]),
        ({NPU_CORE: 2, GPU_MEMORY_RATIO: 50}, NO_TEMPLATE),
        ({GPU_MEMORY: GIB}, [(0, "")]),
    ],
)
def test_a_part_is_just_what_a_template_has(
    requests: dict[str, int], expected: list[tuple[int, str]] | str
) -> None:
    assert given(requests, npus()) == expected


def test_which_resources_need_a_template_is_configured() -> None:
    assert given(PART | {NPU_CPU: 1}, npus(frozenset())) == [(0, "")]
    assert given({GPU_MEMORY: GIB}, npus(frozenset({GPU_MEMORY}))) == NO_TEMPLATE


@pytest.mark.parametrize(
    ("template", "read_as", "named"),
    [
        ("{huawei.com/npu-core: 2}", ((NPU_CORE, 2),), ""),
        ("{huawei.com/npu-core: 2500m}", None, "m.t.huawei.com/npu-core"),
        ("{huawei.com/npu-core: many}", None, "m.t.huawei.com/npu-core"),
        ("{huawei.com/npu-core: -1}", None, "m.t.huawei.com/npu-core"),
        ("[2]", None, "m.t"),
        ("{}", None, ""),
    ],
)
def test_a_bad_template_costs_only_itself(
    template: str, read_as: ResourceAmounts | None, named: str
) -> None:
    found = read(f"m:\n  t: {template}\n  u: {{huawei.com/npu-core: 1}}")
    expected = {"u": ((NPU_CORE, 1),)} | ({} if read_as is None else {"t": read_as})
    assert found.by_model == {"m": expected}
    assert len(found.ignored) == bool(named)
    assert all(named in line for line in found.ignored)


@pytest.mark.parametrize(
    "text", ["a: [", "\x00", "a: !!python/name:os.system", "a: !!int ''", "a: &a [*a]"]
)
def test_what_is_not_yaml_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"data\.yaml"):
        read(text)


@pytest.mark.parametrize("text", ["", "[]", "3: {t: 4}", "null"])
def test_nothing_useful_gives_no_template(text: str) -> None:
    assert not any(read(text).by_model.values())
