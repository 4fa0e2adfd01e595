from __future__ import annotations

import pytest
from koord_manager.pod_webhook import document
from koord_manager.pod_webhook.device_rules import problems
from koord_manager.webhooks.cluster_view import ClusterView

GATED = ClusterView(gates={"ValidatePodDeviceResource": True})


def found(amounts: dict[str, str], view: ClusterView = GATED) -> list[str]:
    requests = {
        name if "/" in name else f"koordinator.sh/{name}": amount
        for name, amount in amounts.items()
    }
    container = {"name": "c", "resources": {"requests": requests}}
    pod = document.read({"spec": {"containers": [container, {"name": "d"}]}})
    return problems(pod, view)


@pytest.mark.parametrize(
    ("amounts", "lines"),
    [
        ({"gpu": "50"}, []),
        ({"gpu": "300"}, []),
        ({"gpu": "0"}, ["gpu 0; expected 1 to 100, or a multiple of 100"]),
        ({"gpu": "150"}, ["gpu 150; expected 1 to 100, or a multiple of 100"]),
        ({"gpu": "50", "gpu.shared": "1"}, ["gpu and koordinator.sh/gpu.shared; expected one of"]),
        ({"gpu.shared": "1", "gpu-memory": "8Gi"}, []),
        ({"gpu.shared": "2", "gpu-memory-ratio": "200", "gpu-core": "100"}, []),
        ({"gpu.shared": "0", "gpu-memory": "1"}, ["gpu.shared 0; expected 1 or more"]),
        ({"gpu.shared": "1"}, ["gpu-memory 0 and koordinator.sh/gpu-memory-ratio 0 with"]),
        (
            {"gpu.shared": "1", "gpu-memory": "1", "gpu-memory-ratio": "1"},
            ["gpu-memory 1 and koordinator.sh/gpu-memory-ratio 1 with"],
        ),
        (
            {"gpu.shared": "2", "gpu-memory-ratio": "25", "gpu-core": "51"},
            ["gpu-core 51; expected a multiple", "gpu-memory-ratio 25; expected a multiple"],
        ),
        ({"gpu.shared": "1", "huawei.com/npu-core": "1"}, []),
        ({"gpu-core": "51"}, []),
    ],
)
def test_what_containers_may_ask_for(amounts: dict[str, str], lines: list[str]) -> None:
    got = found(amounts)
    assert len(got) == len(lines)
    for line, begin in zip(got, lines, strict=True):
        assert line.startswith(f'container "c" requests koordinator.sh/{begin}')


def test_without_the_gate_anything() -> None:
    assert found({"gpu": "0"}, ClusterView()) == []
