"""What the kubelet's own CPU manager does, as its state file says."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from koord_model import cpuset

STATE_FILE = "cpu_manager_state"
"""In the kubelet's directory."""

STATIC = "static"


@dataclass(frozen=True, slots=True)
class KubeletCPUs:
    """The kubelet's policy, and the CPUs it has given to single containers."""

    policy: str = "none"
    exclusive: frozenset[int] = frozenset()


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
    given = (cpus for pod in state.entries.values() for cpus in pod.values())
    return KubeletCPUs(state.policy, frozenset().union(*(cpuset.parse(cpus) for cpus in given)))
