"""stress-ng as what a real container runs: the host's program, with the host's libraries."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.cri import Cri, pb

_LIBRARIES = ("/usr", "/lib", "/lib64")


def why_not() -> str | None:
    """What keeps stress-ng from running here; None where nothing does."""
    return None if shutil.which("stress-ng") else "not installed: stress-ng"


class StressNg(Cri):
    """A CRI client whose containers run stress-ng with these arguments, until stopped.

    No image has the program, and none can be pulled: the host's directories of programs and
    libraries are mounted into the container, read-only.
    """

    def __init__(self, address: object, *arguments: str) -> None:
        super().__init__(address)
        self._command = (shutil.which("stress-ng") or "", "--quiet", "--timeout", "0", *arguments)

    def create_container(
        self,
        sandbox_id: str,
        config: pb.ContainerConfig,
        sandbox_config: pb.PodSandboxConfig,
        *,
        timeout: float = 30.0,
    ) -> str:
        """Create what was asked for, with another command."""
        stressing = pb.ContainerConfig()
        stressing.CopyFrom(config)
        stressing.command[:] = self._command
        stressing.working_dir = "/tmp"  # in the container
        stressing.mounts.extend(
            pb.Mount(container_path=path, host_path=str(Path(path).resolve()), readonly=True)
            for path in _LIBRARIES
            if Path(path).exists()
        )
        return super().create_container(sandbox_id, stressing, sandbox_config, timeout=timeout)
