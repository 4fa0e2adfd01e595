"""The table of calls, and what a runtime is asked for."""

from __future__ import annotations

import pytest
from koord_proto import nri_pb2 as pb
from koordlet.runtime_hooks.nri.protocol.handler import NriHandler, handled_events
from koordlet.runtime_hooks.nri.protocol.methods import BY_EVENT, METHODS, subscription

OLD = frozenset({pb.CREATE_CONTAINER})
NEW = OLD | {pb.UPDATE_POD_SANDBOX, pb.POST_UPDATE_POD_SANDBOX}
OLD_MASK = 1 << 3
NEW_MASK = 1 << 3 | 1 << 11 | 1 << 12


def test_every_event_but_validation_has_a_call():
    events = set(pb.Event.values()) - {pb.UNKNOWN, pb.VALIDATE_CONTAINER_ADJUSTMENT}
    assert set(BY_EVENT) == events


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_rows_agree_with_themselves(method):
    assert hasattr(NriHandler, method.handler)
    assert method.name.lower() == method.handler.replace("_", "")
    assert method.request.DESCRIPTOR.name == f"{method.name}Request"
    assert method.response.DESCRIPTOR.name == f"{method.name}Response"
    assert not method.event or pb.Event.Name(method.event) == method.handler.upper()


@pytest.mark.parametrize(
    ("name", "version", "nri", "mask"),
    [
        ("containerd", "1.7.24~ds1", "", OLD_MASK),
        ("containerd", "v2.1.6", "", OLD_MASK),
        ("containerd", "v2.2.0", "", NEW_MASK),
        ("containerd", "2.10.0-rc.1", "", NEW_MASK),
        ("cri-o", "1.33.9", "", OLD_MASK),
        ("cri-o", "1.34.0", "", NEW_MASK),
        ("other", "9.9.9", "", OLD_MASK),
        ("other", "9.9.9", "v0.9.1-0.20250219030224-e597e7849f24", OLD_MASK),
        ("other", "", "v0.12.2", NEW_MASK),
        ("containerd", "v2.2.0", "(devel)", NEW_MASK),
        ("containerd", "unknown", "unknown", OLD_MASK),
    ],
)
def test_a_runtime_is_asked_for_what_it_knows(name, version, nri, mask):
    runtime = pb.ConfigureRequest(runtime_name=name, runtime_version=version, NRI_version=nri)
    assert subscription(NEW, runtime) == mask
    assert subscription(OLD, runtime) == OLD_MASK


@pytest.mark.parametrize("events", [frozenset(), NEW - OLD], ids=["none", "too new"])
def test_no_event_is_not_every_event(events):
    assert subscription(events, pb.ConfigureRequest()) == 1 << (pb.REMOVE_POD_SANDBOX - 1)


class Two(NriHandler):
    def synchronize(self, request):
        return None

    def create_container(self, request):
        return None

    async def stop_container(self, request):
        return None


def test_events_are_those_a_handler_defines():
    assert handled_events(Two()) == {pb.CREATE_CONTAINER, pb.STOP_CONTAINER}


def test_methods_that_are_not_defined_want_nothing():
    handler = type("Idle", (NriHandler,), {})()
    assert handled_events(handler) == frozenset()
    for method in METHODS:
        assert getattr(handler, method.handler)(method.request()) is None
