import json
import subprocess
import sys
from pathlib import Path

import pytest
from koord_model.version import VERSION
from koord_service.status import StatusPage
from koordctl.main import main

from tests.koordctl.conftest import HEALTH, PODS, Serve
from tests.support.processes import PATIENCE

Captured = pytest.CaptureFixture[str]


def test_status(proxy: str, capsys: Captured) -> None:
    main(["status", "--address", proxy])
    told = capsys.readouterr().out
    assert told.startswith(f"koord-runtime-proxy at {proxy}: degraded\n")
    assert "koordlet" in told


def test_pods(proxy: str, capsys: Captured) -> None:
    main(["pods", f"--address={proxy}"])
    assert "batch/job-1" in capsys.readouterr().out
    main(["pods", f"--address={proxy}", "--unmanaged"])
    told = capsys.readouterr().out
    assert "no answer within 2 s" in told
    assert "shop/web" not in told


def test_json(proxy: str, capsys: Captured) -> None:
    main(["status", "--json", "--address", proxy])
    assert json.loads(capsys.readouterr().out) == HEALTH
    main(["pods", "--json", "--address", proxy])
    assert json.loads(capsys.readouterr().out) == PODS
    main(["pods", "--json", "--unmanaged", "--address", proxy])
    [job] = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in job["containers"]] == ["main"]


def failure(capsys: Captured, *argv: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as end:
        main(argv)
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert line.startswith("koordctl: ")
    return end.value.code, line


def test_nobody_answers(capsys: Captured, tmp_path: Path) -> None:
    code, line = failure(capsys, "status", f"--address=unix://{tmp_path}/s")
    assert code == 1
    assert f"unix://{tmp_path}/s" in line
    assert "--metrics-address" in line


def test_somebody_else_answers(capsys: Captured, serve: Serve) -> None:
    address = serve(healthz=StatusPage(b"healthy\n")).address
    code, line = failure(capsys, "status", f"--address={address}")
    assert code == 1
    assert f"{address} is not a status of koord-runtime-proxy" in line


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((), "COMMAND"),
        (("start",), "invalid choice: 'start'"),
        (("status", "--jsn"), "--jsn"),
        (("status", "--unmanaged"), "--unmanaged"),
        (("pods", "--address=9319"), 'address is "9319"; expected 127.0.0.1:9319'),
    ],
)
def test_arguments_that_cannot_be(capsys: Captured, argv: tuple[str, ...], words: str) -> None:
    code, line = failure(capsys, *argv)
    assert code == 2
    assert words in line


PROGRAM = [sys.executable, "-c", "from koordctl.main import main; main()"]


def test_version_and_help() -> None:
    for flags, words in (
        (["--version"], f"koordctl {VERSION}\n"),
        (["--help"], "pods and containers, the hooks that they missed"),
        (["pods", "--help"], "--unmanaged"),
    ):
        told = subprocess.run([*PROGRAM, *flags], capture_output=True, text=True, check=True)
        assert words in told.stdout
        assert told.stderr == ""


def test_a_reader_that_has_seen_enough(serve: Serve) -> None:
    address = serve(pods=StatusPage(json.dumps(PODS * 5000).encode())).address
    with subprocess.Popen(
        [*PROGRAM, "pods", "--address", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.readline()
        program.stdout.close()
        assert program.stderr.read() == b""
        assert program.wait(PATIENCE) == 0
