"""A network namespace of a test's own, and one address on each side of the way into it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Self


def why_not() -> str | None:
    """What keeps one from being made here; None where nothing does."""
    if os.geteuid() != 0:
        return "a network namespace needs root"
    return None if shutil.which("ip") else "not installed: ip (iproute2)"


class OwnNetwork:
    """While entered: programs started with ``inside`` listen at ``address``, seen from here too.

    What listens at ``near`` here is seen from there. Neither address is a loopback one, which
    Kubernetes takes for no endpoint of a Service.
    """

    def __init__(self) -> None:
        self._name = f"pykoord-{os.getpid()}"
        # Four addresses of 10.203/16 for each process.
        number = os.getpid() % 0x4000 * 4
        near, far = (f"10.203.{(number + last) >> 8}.{(number + last) & 255}" for last in (1, 2))
        self.near, self.address = near, far

    def __enter__(self) -> Self:
        name, here, there = self._name, f"pyk{os.getpid()}a", f"pyk{os.getpid()}b"
        _ip("netns", "add", name)
        try:
            _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
            _ip("addr", "add", f"{self.near}/30", "dev", here)
            _ip("link", "set", here, "up")
            _ip("-n", name, "addr", "add", f"{self.address}/30", "dev", there)
            _ip("-n", name, "link", "set", there, "up")
            _ip("-n", name, "link", "set", "lo", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # With the namespace it would go too, but some time later; the name may be wanted by then.
        subprocess.run(
            ["ip", "link", "del", f"pyk{os.getpid()}a"], check=False, capture_output=True
        )
        _ip("netns", "del", self._name)

    @property
    def namespace(self) -> str:
        """The file by which programs join it."""
        return f"/run/netns/{self._name}"

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command that runs it there."""
        return ["ip", "netns", "exec", self._name, *command]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
