"""Hook servers are listed with what is wrong with their registrations, and deregistered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from koord_service.status import StatusPage, StatusServer, json_page
from koordctl.output.tables import plain
from koordctl.proxy_documents import HookServerRow, ProxyStatus

from koordctl import hooks
from tests.koordctl.conftest import Failing, Run


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "hookserver.d"
    found.mkdir()
    (found / "koordlet.json").write_text("{}")
    return found


@pytest.fixture
def proxy(directory: Path) -> Iterator[str]:
    """One that knows koordlet until a mark says otherwise."""

    def healthz(_: object) -> StatusPage:
        there = [] if (directory / "koordlet.removed").exists() else [{"name": "koordlet"}]
        return json_page({"status": "ok", "hook_servers": there})

    server = StatusServer("127.0.0.1:0", {"/healthz": healthz})
    server.start()
    yield server.address
    server.stop()


def arguments(name: str, directory: Path, address: str) -> list[str]:
    return ["hooks", "remove", name, f"--hook-config-path={directory}", f"--address={address}"]


def test_list() -> None:
    servers = [HookServerRow("a", "Fail", "closed"), HookServerRow("b", "Ignore", "open")]
    status = ProxyStatus(
        "degraded", hook_servers=servers, registrations={"b": "is gone", "c": "bad"}
    )
    rows = [line.split() for line in plain(hooks.lines(status))]
    assert rows[0] == ["HOOK", "SERVER", "POLICY", "BREAKER", "REGISTRATION"]
    assert [(row[0], row[1], row[-1]) for row in rows[1:]] == [
        ("a", "Fail", "ok"),
        ("b", "Ignore", "gone"),
        ("c", "–", "bad"),
    ]
    assert plain(hooks.lines(ProxyStatus("ok"))) == ["No hook server is registered."]


def test_list_of_a_proxy(proxy: str, run: Run) -> None:
    assert "koordlet" in run("hooks", "list", f"--address={proxy}")
    [server] = json.loads(run("hooks", "list", "--json", f"--address={proxy}"))["hookServers"]
    assert server["name"] == "koordlet"


@pytest.mark.parametrize(
    ("there", "runs", "said"),
    [
        (True, True, "no more calls"),
        (False, True, "no more calls"),
        (True, False, "when it starts"),
    ],
    ids=["registered", "its file is gone", "the proxy does not run"],
)
def test_remove(proxy: str, directory: Path, run: Run, there: bool, runs: bool, said: str) -> None:
    if not there:
        (directory / "koordlet.json").unlink()
    address = proxy if runs else f"unix://{directory}/s"
    assert said in run(*arguments("koordlet", directory, address))
    assert [one.name for one in directory.iterdir()] == ["koordlet.removed"]


@pytest.mark.parametrize("name", ["koordle", "../x", ".x", "", "a/b", "a\n"])
def test_no_such_server(proxy: str, directory: Path, failing: Failing, name: str) -> None:
    code, line = failing(*arguments(name, directory, proxy))
    assert (code, "; did you mean koordlet?" in line) == (
        (1, True) if name == "koordle" else (2, False)
    )
    assert [one.name for one in directory.iterdir()] == ["koordlet.json"]


def test_a_directory_that_is_not_the_proxys(
    proxy: str, tmp_path: Path, failing: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, line = failing(*arguments("koordlet", tmp_path / "none", proxy))
    assert code == 1
    assert "koordlet.removed: No such file or directory; " in line
    monkeypatch.setattr(hooks, "WAIT_SECONDS", 0.0)
    other = tmp_path / "other"
    other.mkdir()
    assert "--hook-config-path?" in failing(*arguments("koordlet", other, proxy))[1]
