"""Which kinds of pods are typical."""

from __future__ import annotations

import pytest
from koord_scheduler.plugins.device_share.gpu_nodes import GpuRequest
from koord_scheduler.plugins.device_share.typical_workload import typical_workload

_A, _B, _C = GpuRequest(100, 0, 1, 500), GpuRequest(200, 0, 1, 500), GpuRequest(50, 0)


def test_parts_of_the_kinds() -> None:
    found = typical_workload([_A, _B, _A, _C], 1)
    assert found.part.tolist() == [0.5, 0.25, 0.25]
    assert found.cpu.tolist() == [100, 200, 50]
    assert found.cards.tolist() == [1, 1, 0]


def test_rare_kinds_are_left_out() -> None:
    found = typical_workload([_A] * 6 + [_B] * 3 + [_C], 1, coverage=0.9)
    assert found.cpu.tolist() == [100, 200]
    assert found.part.tolist() == pytest.approx([6 / 9, 3 / 9])


def test_models() -> None:
    found = typical_workload([_A, _A, _A._replace(models=frozenset({1}))], 2)
    assert found.accepts.tolist() == [[True, True], [False, True]]


def test_no_pods() -> None:
    with pytest.raises(ValueError, match="at least one"):
        typical_workload([], 1)
