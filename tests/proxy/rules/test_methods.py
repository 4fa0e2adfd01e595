"""The table of intercepted methods, against Koordinator's own words."""

from __future__ import annotations

import pytest
from koord_hooks.stages import POD_STAGES
from koord_proxy.rules.methods import METHODS
from koord_proxy.rules.records import RecordKind

TABLE = {
    "RunPodSandbox": ("PreRunPodSandbox", None),
    "StopPodSandbox": (None, "PostStopPodSandbox"),
    "RemovePodSandbox": ("PreRemoveRunPodSandbox", None),
    "CreateContainer": ("PreCreateContainer", None),
    "StartContainer": ("PreStartContainer", "PostStartContainer"),
    "UpdateContainerResources": ("PreUpdateContainerResources", None),
    "StopContainer": (None, "PostStopContainer"),
    "RemoveContainer": (None, None),
}


def test_stages_by_method():
    assert {name: (method.pre, method.post) for name, method in METHODS.items()} == TABLE


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_rows_hold_together(method):
    for stage in (method.pre, method.post):
        assert stage is None or (stage in POD_STAGES) == (method.kind is RecordKind.POD)
    assert not (method.makes and method.ends)
