"""Hook servers are listed with what is wrong with their registrations, and deregistered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from koord_service.status import StatusPage, StatusServer, json_page
from koordctl.main import main
from koordctl.proxy_documents import HookServerRow, ProxyStatus

from koordctl import hooks

Captured = pytest.CaptureFixture[str]


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


def remove(name: str, directory: Path, address: str) -> None:
    main(["hooks", "remove", name, f"--hook-config-path={directory}", f"--address={address}"])


def failure(capsys: Captured, name: str, directory: Path, address: str) -> str:
    with pytest.raises(SystemExit) as end:
        remove(name, directory, address)
    assert end.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    return line


def test_list() -> None:
    servers = [HookServerRow("a", "Fail", "closed"), HookServerRow("b", "Ignore", "open")]
    status = ProxyStatus(
        "degraded", hook_servers=servers, registrations={"b": "is gone", "c": "bad"}
    )
    rows = [line.split() for line in hooks.lines(status)]
    assert rows[0] == ["HOOK", "SERVER", "POLICY", "BREAKER", "REGISTRATION"]
    assert [(row[0], row[1], row[-1]) for row in rows[1:]] == [
        ("a", "Fail", "ok"),
        ("b", "Ignore", "gone"),
        ("c", "–", "bad"),
    ]
    assert list(hooks.lines(ProxyStatus("ok"))) == ["No hook server is registered."]


def test_list_of_a_proxy(proxy: str, capsys: Captured) -> None:
    main(["hooks", "list", f"--address={proxy}"])
    assert "koordlet" in capsys.readouterr().out
    main(["hooks", "list", "--json", f"--address={proxy}"])
    [server] = json.loads(capsys.readouterr().out)["hook_servers"]
    assert server["name"] == "koordlet"


@pytest.mark.parametrize("there", [True, False], ids=["registered", "its file is gone"])
def test_remove(proxy: str, directory: Path, capsys: Captured, there: bool) -> None:
    if not there:
        (directory / "koordlet.json").unlink()
    remove("koordlet", directory, proxy)
    assert [one.name for one in directory.iterdir()] == ["koordlet.removed"]
    assert "no more calls" in capsys.readouterr().out


def test_remove_while_the_proxy_does_not_run(directory: Path, capsys: Captured) -> None:
    remove("koordlet", directory, f"unix://{directory}/s")
    assert [one.name for one in directory.iterdir()] == ["koordlet.removed"]
    assert "when it starts" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["koordle", "../x", ".x", "", "a/b", "a\n"])
def test_no_such_server(proxy: str, directory: Path, capsys: Captured, name: str) -> None:
    line = failure(capsys, name, directory, proxy)
    if name == "koordle":
        assert line.endswith("registered: koordlet")
    assert [one.name for one in directory.iterdir()] == ["koordlet.json"]


def test_a_directory_that_cannot_be_written(proxy: str, tmp_path: Path, capsys: Captured) -> None:
    line = failure(capsys, "koordlet", tmp_path / "none", proxy)
    assert "koordlet.removed: No such file or directory; " in line


def test_a_directory_that_is_not_the_proxys(
    proxy: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "WAIT_SECONDS", 0.0)
    other = tmp_path / "other"
    other.mkdir()
    assert "--hook-config-path?" in failure(capsys, "koordlet", other, proxy)
