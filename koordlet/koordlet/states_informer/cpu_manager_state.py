"""Follows the state file of the kubelet's CPU manager.

Containers keep their CPUs while the file is away: before a kubelet is restarted with another
policy, its administrator removes it. So what it said last is kept over a restart of koordlet,
within one boot of the machine: no container outlives that.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from koord_host.kernel_files.interface import FileReader
from koord_service.logs import get_log
from koord_service.whole_file import write_whole

from koordlet.states_informer import kubelet_cpus
from koordlet.states_informer.kubelet_cpus import KubeletCPUs
from koordlet.states_informer.state.last_good import LastGood

_log = get_log("koordlet.node")


class _Kept(msgspec.Struct):
    boot: str
    state: str


_KEPT = msgspec.json.Decoder(_Kept)


class StateSnapshot:
    """The file that keeps the state's text, mode 0600; ``boot`` names this boot of the machine."""

    def __init__(self, path: str, boot: str) -> None:
        self._path = Path(path)
        self._boot = boot
        self._written = ""

    def load(self) -> str:
        """The text of the last run; "" where there is none of this boot, or it cannot be read."""
        try:
            kept = _KEPT.decode(self._path.read_bytes())
        except FileNotFoundError:
            return ""
        except (OSError, msgspec.MsgspecError, UnicodeError) as error:
            _warn(f"{self._path}: {error} (the kubelet's file is waited for)")
            return ""
        return kept.state if kept.boot == self._boot else ""

    def keep(self, text: str) -> None:
        """Write the text, if it is not the one written last."""
        if text == self._written:
            return
        self._written = text  # also where that fails: one line, and the next change tries again
        try:
            write_whole(self._path, msgspec.json.encode(_Kept(self._boot, text)), sync=False)
        except OSError as error:
            _warn(f"{self._path}: {error.strerror} (a restart has to wait for the kubelet's file)")


class CPUManagerState:
    """The state file in the kubelet's directory; failures to read it are logged."""

    def __init__(
        self, reader: FileReader, kubelet_dir: str, kept: StateSnapshot | None = None
    ) -> None:
        self._kept = kept
        self._reader = reader
        self._path = f"{kubelet_dir}/{kubelet_cpus.STATE_FILE}"
        self._is_known = False
        self._last: LastGood[KubeletCPUs] = LastGood(self._path, _warn, _recovered)

    def current(self) -> KubeletCPUs | None:
        """Return its present or last content; ``None`` until it has been read once."""
        return self._last.refresh(self._parse)

    def _parse(self) -> KubeletCPUs:
        try:
            text = self._reader.read(self._path)
            found = kubelet_cpus.parse(text)
        except (FileNotFoundError, ValueError):
            # One that was never there: no kubelet yet, and it gives no CPUs away. The kubelet
            # replaces the file as a whole: what cannot be parsed is of no kubelet that runs.
            if self._is_known:
                raise
            return self._recalled()
        self._is_known = True
        if self._kept is not None:
            self._kept.keep(text)
        return found

    def _recalled(self) -> KubeletCPUs:
        text = self._kept.load() if self._kept is not None else ""
        if not text:
            return KubeletCPUs()
        found = kubelet_cpus.parse(text)
        self._is_known = True
        return found


def _warn(line: str) -> None:
    _log.warning("cannot read the node's state", reason=line)


def _recovered(name: str) -> None:
    _log.info("the node's state can be read again", path=name)
