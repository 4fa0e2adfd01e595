"""Where the Node says that its kubelet is."""

from __future__ import annotations

import pytest
from koord_kube.protocol.api import Object
from koordlet.states_informer.node_kubelet import NodeKubelet


def node(*addresses: tuple[str, str], port: int | None = None) -> Object:
    endpoints = {} if port is None else {"kubeletEndpoint": {"Port": port}}
    return {
        "status": {
            "addresses": [{"type": kind, "address": address} for kind, address in addresses],
            "daemonEndpoints": endpoints,
        }
    }


DUAL = node(("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1"), ("Hostname", "n1"), port=1250)


async def asked(found: Object | None, **settings: object) -> str:
    kubelet = NodeKubelet(lambda: found, **settings)  # type: ignore[arg-type]
    return (await kubelet._asked()).name


@pytest.mark.parametrize(
    ("found", "settings", "url"),
    [
        (DUAL, {}, "https://10.0.0.1:1250/pods/"),
        (DUAL, {"address_type": "Hostname"}, "https://n1:1250/pods/"),
        (DUAL, {"read_only_port": 10255}, "http://10.0.0.1:10255/pods/"),
        (node(("InternalIP", "fd00::1")), {}, "https://[fd00::1]:10250/pods/"),
    ],
)
async def test_the_first_address_of_the_type(found, settings, url):
    assert await asked(found, **settings) == url


async def test_no_such_address():
    with pytest.raises(OSError, match="no address of type ExternalIP; it has Hostname, InternalIP"):
        await asked(DUAL, address_type="ExternalIP")


async def test_before_the_node_is_known():
    with pytest.raises(OSError, match="not known yet"):
        await asked(None)


@pytest.mark.parametrize(
    "address",
    ["evil/x?", "a@evil", "10.0.0.1:6443/api/v1/secrets?x=", "a b", "::1]:1/", "a#", "-a", "\n"],
)
async def test_an_address_that_is_no_host_gets_no_token(address):
    with pytest.raises(OSError, match="expected a host"):
        await asked(node(("InternalIP", address)))


@pytest.mark.parametrize("port", ["1/x?", 0, 1 << 16])
async def test_a_port_that_is_none_gets_no_token(port):
    with pytest.raises(OSError, match="expected a port"):
        await asked(node(("InternalIP", "10.0.0.1"), port=port or 1 << 17))
