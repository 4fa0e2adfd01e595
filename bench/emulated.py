"""A node in QEMU for one bench: its disk, its boot, and what its steps found."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.vm import base, machine, node_disk, recipe


def run(
    module: ModuleType,
    *words: str,
    files: Callable[[Path], Mapping[str, Path]] = lambda directory: {},
    slow_disk: str = "",
) -> dict[str, Any]:
    """Boot a node that goes through a module's ``STEPS``; their outcomes or errors, by name.

    ``words`` are more of the kernel's command line. ``files`` may make files in a directory, and
    returns where they are by where the node has them. ``slow_disk`` are limits of a second disk
    (QEMU's ``throttling``), which the node has as /dev/vdb, with a file system.
    """
    name = module.__name__.rpartition(".")[2].removesuffix("_node")
    with tempfile.TemporaryDirectory(dir=base.cache(), prefix="disk-") as directory:
        disk = node_disk.make(Path(directory))
        for there, here in files(Path(directory)).items():
            command = ["debugfs", "-w", "-R", f"write {here.resolve()} {there}", str(disk)]
            subprocess.run(command, check=True, env={"PATH": base.PATH}, capture_output=True)
        word = f"{recipe.SCENARIO_WORD}={module.__name__}"
        drives = [_slow(Path(directory, "slow.ext4"), slow_disk)] if slow_disk else []
        console = base.cache() / f"{name}-console.log"
        life = machine.live(disk, console, word, *words, drives=drives)
    return {
        step: line.get("outcome", line.get("error"))
        for step, line in life.steps.items()
        if step.startswith(name)
    }


def _slow(path: Path, limits: str) -> str:
    base.run("mke2fs", "-q", "-t", "ext4", str(path), "512M")
    return f"file={path},format=raw,if=virtio,cache=unsafe,{limits}"
