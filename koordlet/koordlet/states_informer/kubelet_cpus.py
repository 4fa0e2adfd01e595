"""State of the kubelet's own CPU manager, from its file. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from koord_model import cpuset

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
