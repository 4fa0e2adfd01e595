"""``koordctl gangs``: whom it asks, and what it prints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_service.status import json_page
from koordctl.amounts import UNKNOWN

from tests.koordctl.conftest import Failing, Run, Serve

GANGS: list[dict[str, Any]] = [
    {"name": "shop/a", "min": 4, "members": 3, "waiting": 3, "bound": 0, "phase": "", "why": "few"},
    {
        "name": "shop/k.scheduling.k8s.io",
        "min": 1,
        "members": 1,
        "waiting": 0,
        "bound": 1,
        "policy": "basic",
    },
    {
        "name": "shop/b",
        "min": 2,
        "members": 2,
        "waiting": 0,
        "bound": 2,
        "phase": "Running",
        "why": "",
    },
]


@pytest.fixture
def address(serve: Serve) -> str:
    return str(serve(**{"v1/gangs": json_page({"gangs": GANGS})}).address)


def test_a_line_for_each(run: Run, address: str) -> None:
    lines = [line.split() for line in run("gangs", "--address", address).splitlines()]
    assert lines[1] == ["shop/a", "4", "3", "3", "0", UNKNOWN, UNKNOWN, "few"]
    assert lines[3] == ["shop/b", "2", "2", "0", "2", "Running", UNKNOWN, UNKNOWN]


def test_groups_of_kubernetes_are_found_by_their_name(run: Run, address: str) -> None:
    [_, line] = run("gangs", "shop/k", "--address", address).splitlines()
    assert line.split() == [GANGS[1]["name"], "1", "1", "0", "1", UNKNOWN, "basic", UNKNOWN]


def test_one_of_them_as_json(run: Run, failing: Failing, address: str) -> None:
    assert json.loads(run("gangs", "shop/b", "--address", address, "--json")) == [GANGS[2]]
    code, line = failing("gangs", "shop/c", "--address", address)
    assert (code, "no gang shop/c" in line) == (1, True)
