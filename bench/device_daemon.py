"""Costs of koord-device-daemon at rest: CPU and memory, with eight invented NPUs and their tool.

    python bench/device_daemon.py [SECONDS]

The tool is a shell script, whose time is not counted. First it rests, then SIGHUP lets it read its
settings and ask again, ten times; the CPU of one such round is spread over one interval.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CARDS = 8
INTERVAL = 900.0
ROUNDS = 10
TICKS = os.sysconf("SC_CLK_TCK")
PROGRAM = """
import sys
import koord_devices.node
koord_devices.node.LocalNode.__init__.__kwdefaults__["path"] = sys.argv.pop(1)
from koord_devices.main import main
sys.exit(main())
"""
TOOL = """#!/bin/sh
case "$*" in
"info -m") echo "NPU ID Chip ID Chip Logic ID Chip Name"
  for n in 0 1 2 3 4 5 6 7; do echo "$n 0 $n Ascend 910B3"; done;;
*board*) echo "PCIe Bus Info : 0000:8$3:00.0"; echo "Software Version : 25.5.1";;
*usages*) printf 'HBM Capacity(MB) : 65536\\nChip ID : 0\\n';;
*common*) printf 'Chip ID : 0\\nAicore Count : 24\\n';;
*health*) echo "Health Status : OK";;
*) exit 1;;
esac
"""


def make_node(root: Path) -> None:
    """Sysfs with the cards, and the tool."""
    for card in range(CARDS):
        where = root / f"sys/devices/pci0000:80/0000:80:01.0/0000:8{card}:00.0"
        where.mkdir(parents=True)
        fields = {"vendor": "0x19e5", "device": "0xd802", "class": "0x120000", "numa_node": "1"}
        for name, value in fields.items():
            (where / name).write_text(f"{value}\n")
        link = root / "sys/bus/pci/devices" / where.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(where)
    tool = root / "bin/npu-smi"
    tool.parent.mkdir()
    tool.write_text(TOOL)
    tool.chmod(0o755)


def cpu_seconds(pid: int) -> float:
    """User and system time of the process itself, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def thread_seconds(pid: int) -> float:
    """CPU time of the threads that there are now, to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def memory(pid: int) -> dict[str, float]:
    """RSS now and at its peak, and what nobody else shares, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    lines += Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kib = {line.split(":")[0]: line.split()[1] for line in lines if line.endswith("kB")}
    return {name: int(kib[name]) / 1024 for name in ("VmRSS", "VmHWM", "Pss")}


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        make_node(root)
        output = root / "infos/ic-device"
        command = [
            *(sys.executable, "-c", PROGRAM, f"{root}/bin:/usr/bin:/bin"),
            f"--sys-fs-root-dir={root}/sys",
            f"--prints-output-file={output}",
            f"--status-address={root}/status.sock",
        ]
        with subprocess.Popen(command) as process:
            while not output.exists():
                time.sleep(0.1)
            time.sleep(1)
            started = thread_seconds(process.pid)
            time.sleep(seconds)
            idle = (thread_seconds(process.pid) - started) / seconds
            before = cpu_seconds(process.pid)
            for _ in range(ROUNDS):
                process.send_signal(signal.SIGHUP)
                time.sleep(2)
            a_round = (cpu_seconds(process.pid) - before) / ROUNDS
            found = memory(process.pid)
            process.terminate()
    share = idle + a_round / INTERVAL
    print(f"a round: {a_round:.2f} s of CPU; idle: {idle:.4%} of a core")
    print(f"at {INTERVAL:g} s: {share:.3%} of a core")
    print(", ".join(f"{name} {amount:.1f} MiB" for name, amount in found.items()))


if __name__ == "__main__":
    main()
