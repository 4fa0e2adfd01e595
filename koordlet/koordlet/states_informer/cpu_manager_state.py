"""Follows the state file of the kubelet's CPU manager.

Containers keep their CPUs while the file is away: before a kubelet is restarted with another
policy, its administrator removes it.
"""

from __future__ import annotations

from koord_host.kernel_files.interface import FileReader
from koord_service.logs import get_log

from koordlet.states_informer import kubelet_cpus
from koordlet.states_informer.kubelet_cpus import KubeletCPUs
from koordlet.states_informer.state.last_good import LastGood

_log = get_log("koordlet.node")


class CPUManagerState:
    """The state file in the kubelet's directory; failures to read it are logged."""

    def __init__(self, reader: FileReader, kubelet_dir: str) -> None:
        self._reader = reader
        self._path = f"{kubelet_dir}/{kubelet_cpus.STATE_FILE}"
        self._is_known = False
        self._last: LastGood[KubeletCPUs] = LastGood(self._path, _warn, _recovered)

    def current(self) -> KubeletCPUs | None:
        """What it says, or said last; ``None`` while it cannot be read for the first time."""
        return self._last.refresh(self._parse)

    def _parse(self) -> KubeletCPUs:
        try:
            found = kubelet_cpus.parse(self._reader.read(self._path))
        except FileNotFoundError:
            if self._is_known:
                raise
            return KubeletCPUs()  # no kubelet yet: it gives no CPUs away
        except ValueError:
            if self._is_known:
                raise
            # The kubelet replaces the file as a whole: this is of no kubelet that runs.
            return KubeletCPUs()
        self._is_known = True
        return found


def _warn(line: str) -> None:
    _log.warning("cannot read the node's state", reason=line)


def _recovered(name: str) -> None:
    _log.info("the node's state can be read again", path=name)
