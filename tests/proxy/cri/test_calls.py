"""CRI's calls, against the CRI's own words."""

from __future__ import annotations

import pytest
from koord_demo import cri_client_pb2 as full
from koord_hooks.stages import Stage
from koord_proxy.contract.events import RequestArrived
from koord_proxy.cri.calls import MESSAGES, SERVICES, CriApi
from koord_proxy.rules.methods import METHODS

CALLS = CriApi()


def arrived(name: str, message: bytes) -> RequestArrived:
    return RequestArrived(1, name, message, held=True)


@pytest.mark.parametrize("service", SERVICES)
def test_paths(service):
    assert CALLS.call(f"/{service}/RunPodSandbox") == "RunPodSandbox"
    assert CALLS.call(f"/{service}/ListContainers") == ""
    assert CALLS.label(f"/{service}/ListContainers") == f"/{service}/ListContainers"


def test_every_method_has_its_messages():
    assert MESSAGES.keys() == METHODS.keys()
    assert {name for name, one in MESSAGES.items() if one.response} == {
        name for name, method in METHODS.items() if method.makes
    }


@pytest.mark.parametrize("name", METHODS)
def test_the_id_is_where_the_cri_has_it(name):
    method, request = METHODS[name], getattr(full, f"{name}Request")()
    field = f"{'pod_sandbox' if 'Sandbox' in name else 'container'}_id"
    if method.makes:
        response = getattr(full, f"{name}Response")(**{field: "made"}).SerializeToString()
        asked = CALLS.parse(arrived(name, request.SerializeToString()))
        assert (asked.id, asked.created_id(response)) == ("", "made")
        assert asked.created_id(b"\xff\xff") == ""
    else:
        setattr(request, field, "that")
        asked = CALLS.parse(arrived(name, request.SerializeToString()))
        assert (asked.id, asked.sandbox, asked.created_id(b"")) == ("that", "", "")
    assert asked.method is method


def test_the_pod_of_a_new_container():
    request = full.CreateContainerRequest(pod_sandbox_id="s")
    asked = CALLS.parse(arrived("CreateContainer", request.SerializeToString()))
    assert (asked.sandbox, asked.describes_pod) == ("s", True)


def test_what_is_asked_first():
    assert CALLS.stages("CreateContainer") == (Stage.PRE_CREATE_CONTAINER,)
    assert CALLS.stages("StopContainer") == ()


def test_what_cannot_be_read():
    with pytest.raises(ValueError, match=r"^StopContainer is not a valid ContainerIdRequest: "):
        CALLS.parse(arrived("StopContainer", b"\xff\xff"))
