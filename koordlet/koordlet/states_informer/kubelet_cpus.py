"""What the kubelet's own CPU manager does, as its state file says.

Containers keep their CPUs while the file is away: before a kubelet is restarted with another
policy, its administrator removes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from koord_host.kernel_files.interface import FileReader
from koord_model import cpuset
from koord_service.logs import get_log

from koordlet.states_informer.state.last_good import LastGood

_log = get_log("koordlet.node")

STATE_FILE = "cpu_manager_state"
"""In the kubelet's directory."""

STATIC = "static"


@dataclass(frozen=True, slots=True)
class KubeletCPUs:
    """The kubelet's policy, and the CPUs it has given to single containers.

    ``by_pod`` are the same CPUs by the UIDs of the containers' pods.
    """

    policy: str = "none"
    exclusive: frozenset[int] = frozenset()
    by_pod: Mapping[str, frozenset[int]] = field(default_factory=dict)


class _State(msgspec.Struct):
    policy: str = msgspec.field(default="none", name="policyName")
    entries: dict[str, dict[str, str]] = {}


_DECODER = msgspec.json.Decoder(_State)


def parse(text: str) -> KubeletCPUs:
    """The state file's text.

    Raises:
        ValueError: it is none; the message says what is wrong.
    """
    try:
        state = _DECODER.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
    given = {
        uid: frozenset().union(*map(cpuset.parse, containers.values()))
        for uid, containers in state.entries.items()
    }
    by_pod = {uid: cpus for uid, cpus in given.items() if cpus}
    return KubeletCPUs(state.policy, frozenset().union(*by_pod.values()), by_pod)


class CPUManagerState:
    """The state file in the kubelet's directory; failures to read it are logged."""

    def __init__(self, reader: FileReader, kubelet_dir: str) -> None:
        self._reader = reader
        self._path = f"{kubelet_dir}/{STATE_FILE}"
        self._is_known = False
        self._last: LastGood[KubeletCPUs] = LastGood(self._path, _warn, _recovered)

    def current(self) -> KubeletCPUs | None:
        """What it says, or said last; ``None`` while it cannot be read for the first time."""
        return self._last.refresh(self._parse)

    def _parse(self) -> KubeletCPUs:
        try:
            found = parse(self._reader.read(self._path))
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
