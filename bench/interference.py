"""Interference on a real kernel: a node in QEMU, disturbed by stress-ng and tc netem.

``python -m bench.interference [PART_OF_A_NAME ...]``: all disturbances, or those whose names have
one of the parts; as root on Debian, with stress-ng and iproute2. Half an hour for all of them;
prints the table of results/interference.md.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import emulated, interference_node
from tests.vm import base

_PROGRAMS = ("stress-ng", "ip", "tc")
_LIBC = re.compile(r"/(?:ld-linux|lib(?:c|m|dl|rt|pthread|resolv|gcc_s))[-.]")


def run(parts: Sequence[str]) -> dict[str, Any]:
    """Boot the node, and return what its steps found, by name; ``parts`` are of disturbances."""
    # Emulated beside other programs, the machine's timer looks broken to the kernel.
    only = f"{interference_node.ONLY_WORD}={','.join(parts)}"
    words = ("delayacct", "no_timer_check", only)
    return emulated.run(
        interference_node,
        *words,
        files=lambda directory: {interference_node.TOOLS: _tools(directory)},
        # Of a hard disk: this machine's would take whatever the node can write.
        slow_disk="throttling.iops-total=150,throttling.bps-total=50000000",
    )


def _tools(directory: Path) -> Path:
    """A tar of this machine's programs with their libraries: the node has no package of them."""
    there = directory / "opt/load"
    for name in ("bin", "lib"):
        (there / name).mkdir(parents=True)
    for program in _PROGRAMS:
        path = base.run("sh", "-c", f"command -v {program}").strip()
        libraries = re.findall(r"=> (/\S+)", base.run("ldd", path))
        base.run("cp", "-L", *(one for one in libraries if not _LIBC.search(one)), f"{there}/lib")
        base.run("cp", "-L", path, f"{there}/lib/{program}.bin")
        # Their libraries are theirs alone: what they start has the node's.
        script = (
            "#!/bin/sh\n"
            f"exec /lib64/ld-linux-x86-64.so.2 --library-path /opt/load/lib "
            f'/opt/load/lib/{program}.bin "$@"\n'
        )
        (there / "bin" / program).write_text(script)
        (there / "bin" / program).chmod(0o755)
    tar = directory / "load-tools.tar"
    subprocess.run(["tar", "-C", str(directory), "-cf", str(tar), "opt/load"], check=True)
    return tar


def table(found: Mapping[str, Any]) -> str:
    """A row a disturbance."""
    lines = ["| disturbance | found after | as |", "|---|---|---|"]
    for name, step in found.items():
        if isinstance(step, dict) and "aspects" in step:
            for aspect, seconds in step["seconds"].items():
                lines.append(
                    f"| {name.removeprefix('interference ')} | {seconds:.0f} s | "
                    f"{aspect}: {step['outcomes'][aspect]} |"
                )
    return "\n".join(lines)


def main() -> None:
    found = run(sys.argv[1:])
    (base.cache() / "interference.json").write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
