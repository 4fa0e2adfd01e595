from typing import Any

import pytest
from koord_manager.noderesource.core.rdma_resource import rdma
from koord_model.keys import RDMA


def device(*healths: bool) -> dict[str, Any]:
    listed = [{"type": "rdma", "minor": n, "health": one} for n, one in enumerate(healths)]
    return {"spec": {"devices": [*listed, {"type": "gpu", "health": True}]}}


@pytest.mark.parametrize(
    ("given", "amount"),
    [
        (device(True, True), 200),
        (device(True, False), 100),
        (device(False), None),
        (device(), None),
        ({}, None),
        (None, None),
    ],
)
def test_a_hundred_for_each_healthy_one(given: Any, amount: int | None) -> None:
    desired = rdma(given)
    assert desired.resources == {RDMA: amount}
    assert desired.decisions
