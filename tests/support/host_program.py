"""A program of this machine as what a real container runs, with the machine's libraries."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.cri import Cri, pb
from tests.support.processes import PATIENCE

_LIBRARIES = ("/usr", "/lib", "/lib64")


class HostProgram(Cri):
    """A CRI client whose containers run this command, until stopped.

    No image has the program, and none can be pulled: the host's directories of programs and
    libraries are mounted into the container, read-only, and ``mounts`` at the same places.
    """

    def __init__(self, address: object, *command: str, mounts: Sequence[str | Path] = ()) -> None:
        super().__init__(address)
        self._command = command
        self._mounts = (*_LIBRARIES, *mounts)

    def create_container(
        self,
        sandbox_id: str,
        config: pb.ContainerConfig,
        sandbox_config: pb.PodSandboxConfig,
        *,
        timeout: float = PATIENCE,
    ) -> str:
        """Create what was asked for, with another command."""
        running = pb.ContainerConfig()
        running.CopyFrom(config)
        running.command[:] = self._command
        running.working_dir = "/tmp"  # in the container
        running.mounts.extend(
            pb.Mount(container_path=str(path), host_path=str(Path(path).resolve()), readonly=True)
            for path in self._mounts
            if Path(path).exists()
        )
        return super().create_container(sandbox_id, running, sandbox_config, timeout=timeout)


class PythonProgram(HostProgram):
    """Containers that run a script of the standard library alone, with our own Python."""

    def __init__(self, address: object, script: Path, *arguments: str) -> None:
        command = (f"{sys.base_prefix}/bin/python3", "-I", "-S", str(script), *arguments)
        super().__init__(address, *command, mounts=(sys.base_prefix, script.parent))
