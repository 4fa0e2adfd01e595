from __future__ import annotations

from typing import Any

import pytest
from koord_serving.aggregated.core.front_proxy import FrontProxy, front_proxy
from koord_serving.delegated_auth.core.users import User

from tests.support.kube_api import front_proxy_config_map

CONFIG = front_proxy_config_map("PEM", "", "front-proxy-client")


def certificate(name: str) -> dict[str, Any]:
    """As the ssl module shows it."""
    return {"subject": ((("organizationName", "x"),), (("commonName", name),))}


def test_a_front_proxy_is_known_by_its_name() -> None:
    front = front_proxy(CONFIG)
    assert front.trusts(certificate("front-proxy-client"))
    assert not front.trusts(certificate("kubernetes-admin"))
    assert not front.trusts({})
    assert not front.trusts(None)
    anyone = front_proxy({"data": CONFIG["data"] | {"requestheader-allowed-names": "[]"}})
    assert anyone.trusts(certificate("kubernetes-admin"))


def test_who_it_asks_for() -> None:
    headers = [
        ("X-Remote-User", "jane"),
        ("x-remote-group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Uid", "u"),
        ("X-Remote-Extra-Acme.com%2Fproject", "p"),
        ("X-Remote-Extra-scopes", "s1"),
        ("X-Remote-Extra-scopes", "s2"),
        ("Accept", "x"),
    ]
    extra = (("acme.com/project", ("p",)), ("scopes", ("s1", "s2")))
    groups = ("a", "b", "system:authenticated")
    assert front_proxy(CONFIG).user(headers) == User("jane", "u", groups, extra)
    assert front_proxy(CONFIG).user([("X-Remote-Group", "system:masters")]) is None
    assert front_proxy(CONFIG).user([("X-Remote-User", "")]) is None


@pytest.mark.parametrize(
    ("name", "groups", "then"),
    [
        ("system:kube-aggregator", (), ("system:authenticated",)),
        ("jane", ("system:authenticated", "a"), ("system:authenticated", "a")),
        ("system:anonymous", (), ()),
        ("x", ("system:unauthenticated",), ("system:unauthenticated",)),
    ],
)
def test_whoever_has_a_name_is_authenticated(
    name: str, groups: tuple[str, ...], then: tuple[str, ...]
) -> None:
    headers = [("X-Remote-User", name), *(("X-Remote-Group", one) for one in groups)]
    assert front_proxy(CONFIG).user(headers) == User(name, groups=then)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"requestheader-client-ca-file": " "},
        CONFIG["data"] | {"requestheader-group-headers": "X-Remote-Group"},
        CONFIG["data"] | {"requestheader-group-headers": "[1]"},
        CONFIG["data"] | {"requestheader-allowed-names": '"x"'},
    ],
)
def test_a_config_map_that_names_none(data: Any) -> None:
    with pytest.raises(ValueError, match="requestheader-"):
        front_proxy({"data": data})


def test_the_authority_is_not_printed() -> None:
    front = FrontProxy("SECRET", frozenset(), (), (), (), ())
    assert "SECRET" not in repr(front)
