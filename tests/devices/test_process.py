"""The program itself: tools as scripts, a fake sysfs, signals, events of the kernel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.recorded_tools import RECORDED, recorded

TOOL = """#!/bin/sh
recording=$(cat "{root}/${{0##*/}}.state")
[ "$recording" != hang ] || exec sleep 60
exec cat "{root}/printed/$recording/${{0##*/}} $*"
"""


def print_recorded(root: Path, name: str) -> None:
    directory = root / "printed" / name
    directory.mkdir(parents=True)
    for words, text in recorded(name).items():
        (directory / words).write_text(text)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A root with sysfs and tools; ``NAME.state`` says which recording one prints."""
    functions = {
        "0000:c1:00.0": ("19e5", "d802"),
        "0000:81:00.0": ("19e5", "d802"),
        "0000:03:00.0": ("1d22", "3688"),
    }
    for address, (vendor, device) in functions.items():
        where = tmp_path / "sys/devices/pci0000:80/0000:80:01.0" / address
        where.mkdir(parents=True)
        fields = {"vendor": vendor, "device": device, "class": "120000"}
        for name, value in fields.items():
            (where / name).write_text(f"0x{value}\n")
        (where / "numa_node").write_text("1\n")
        link = tmp_path / "sys/bus/pci/devices" / address
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(where)
    for name in ("huawei-910b", "huawei-310-21.0.4", "kunlun-p800"):
        print_recorded(tmp_path, name)
    for name, recording in (("npu-smi", "huawei-910b"), ("xpu_smi", "kunlun-p800")):
        (tmp_path / f"{name}.state").write_text(recording)
        tool = tmp_path / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(TOOL.format(root=tmp_path))
        tool.chmod(0o755)
    return tmp_path


PROGRAM = """
import sys
import koord_devices.node
koord_devices.node.LocalNode.__init__.__kwdefaults__["path"] = sys.argv.pop(1)
from koord_devices.main import main
sys.exit(main())
"""


def command(host: Path, *flags: str) -> list[str]:
    return [
        *(sys.executable, "-c", PROGRAM, f"{host}/bin:/usr/bin:/bin"),
        f"--sys-fs-root-dir={host / 'sys'}",
        f"--prints-output-file={host / 'infos/ic-device'}",
        *flags,
    ]


def reasons(host: Path) -> dict[str, str]:
    devices = json.loads((host / "infos/ic-device").read_text())
    return {one["uuid"]: one["status"].get("errCode", "") for one in devices}


HEALTHY = {"npu-0-0": "", "npu-1-1": "Unhealthy", "xpu-0": "", "xpu-1": ""}


def test_once_with_a_tool_that_hangs_the_second_time(host: Path) -> None:
    flags = ("--oneshot", "--format=table", "--command-timeout=20")
    done = subprocess.run(command(host, *flags), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert reasons(host) == HEALTHY
    assert len(done.stdout.splitlines()) == 5
    (host / "npu-smi.state").write_text("hang")
    began = time.monotonic()
    done = subprocess.run(
        command(host, "--oneshot", "--command-timeout=2"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert time.monotonic() - began < 20
    assert done.returncode == 1
    assert reasons(host) == HEALTHY | {"npu-0-0": "Timeout"}
    assert "did not end in time" in done.stderr


@pytest.fixture
def daemon(host: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    address = f"127.0.0.1:{free_port()}"
    environment = os.environ | {"KDD_STATUS_ADDRESS": address}
    process = subprocess.Popen(command(host), env=environment, stderr=subprocess.PIPE, text=True)
    yield process, f"http://{address}"
    process.kill()
    process.communicate()


def page(address: str) -> str:
    for _ in range(300):
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(address)


def test_its_life(host: Path, daemon: tuple[subprocess.Popen[str], str]) -> None:
    """It serves its pages, reads its settings again, and leaves the file when it ends."""
    process, address = daemon
    assert page(f"{address}/readyz") == "ok\n"
    metrics = page(f"{address}/metrics")
    assert 'koord_device_daemon_devices{vendor="kunlun",healthy="true"} 2' in metrics
    assert 'pykoord_build_info{program="koord-device-daemon",' in metrics
    assert page(f"{address}/healthz") == "ok\n"
    (host / "npu-smi.state").write_text("huawei-310-21.0.4")
    process.send_signal(signal.SIGHUP)
    for _ in range(300):
        if len(reasons(host)) > len(HEALTHY):
            break
        time.sleep(0.1)
    assert reasons(host)["npu-0-0"] == "NotFound", "it was there before"
    process.terminate()
    assert process.wait(20) == 0
    assert "npu-6-3" in reasons(host)


def test_settings_that_cannot_be_used_are_one_line(host: Path) -> None:
    for flag in ("--sleep-interval=soon", "--vendors=acme", "--onshot", "--status-address=x"):
        done = subprocess.run(command(host, flag), capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def test_recordings_say_where_they_are_from() -> None:
    for path in RECORDED.glob("*.txt"):
        head = [line for line in path.read_text().splitlines() if line.startswith("# ")]
        assert any("https://" in line for line in head), path.name
        assert recorded(path.stem)


def test_it_loads_no_event_loop() -> None:
    """Some megabytes on every node, which it has no use for."""
    program = "import sys, koord_devices.main; sys.exit('asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
