"""The node's life: booted in QEMU's software emulation, off when its scenario is done."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.vm import base

QEMU = "qemu-system-x86_64"
PROGRAMS = (QEMU, "debootstrap", "mke2fs", "unshare", "apt-get", "git")
LONGEST = 2400
"""Seconds after which a node that is still up is given up."""

_KERNEL = (
    # The other CPUs come when the scenario wants them.
    *("root=/dev/vda", "rw", "console=ttyS0", "psi=1", "panic=-1", "maxcpus=2"),
    *("systemd.getty_auto=no", "systemd.journald.forward_to_console=1"),
)


@dataclasses.dataclass(frozen=True)
class Life:
    """What is known of a node that is off again."""

    steps: dict[str, dict[str, Any]]
    """By name: the outcome or the error, and the seconds."""
    log: Path
    """What it and its emulator wrote on the way."""

    def outcome(self, step: str, otherwise: Any = None) -> Any:
        return self.steps.get(step, {}).get("outcome", otherwise)

    def console_end(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


def live(disk: Path, console: Path) -> Life:
    """Boot the disk, wait until the machine is off, and read what it wrote."""
    # Beside the disk, which is this run's alone: another's results must not be taken for ours.
    results = disk.with_name("results.jsonl")
    command = [
        # numpy is built for processors from 2009 on (x86-64-v2); QEMU's default is an older one.
        *(QEMU, "-accel", "tcg,thread=multi", "-cpu", "Nehalem", "-smp", "8", "-m", "2048"),
        *("-nodefaults", "-display", "none", "-no-reboot"),
        *("-kernel", str(base.root() / "vmlinuz"), "-initrd", str(base.root() / "initrd.img")),
        *("-append", " ".join(_KERNEL)),
        # Nothing of the disk is wanted after a crash of this machine.
        *("-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"),
        *("-serial", "stdio", "-serial", f"file:{results}"),
    ]
    with console.open("wb") as log:
        qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            qemu.wait(LONGEST)
        except subprocess.TimeoutExpired:
            pass  # the steps that are missing say it
        finally:
            qemu.kill()
            qemu.wait()
    return Life(_steps(results), console)


def _steps(results: Path) -> dict[str, dict[str, Any]]:
    lines = results.read_text(errors="replace").splitlines() if results.exists() else []
    # A node that was given up may leave half a line.
    read = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return {line["step"]: line for line in read}
