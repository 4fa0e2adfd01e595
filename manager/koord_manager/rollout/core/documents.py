"""State of rollouts, as the ConfigMap beside that of the configuration has it. No IO.

It has two keys, of one writer each: ``observed`` is the manager's, ``orders`` that of people, by
``koordctl rollout``. Both are JSON by names of entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

SUFFIX = "-rollout"
"""Of the ConfigMap's name, after that of the configuration's."""
OBSERVED, ORDERS = "observed", "orders"

MOST_HISTORY = 10
MOST_BYTES = 512 * 1024
"""Of all that is observed: older contents go first. A ConfigMap may have 1 MiB."""


class Version(msgspec.Struct, frozen=True, omit_defaults=True):
    """A version of an entry: when and by which client it came, and the entry's own content.

    ``content`` is ``None`` of one that was dropped to save space.
    """

    version: str
    at: str
    by: str = ""
    content: dict[str, Any] | None = None


class Pause(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pause of one version, and why."""

    version: str
    at: str
    by: str
    why: str


class NodeCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Nodes that are to have a version, those that say that they have it, and of those the failed.

    ``problem`` is what one of the failed says.
    """

    wanted: int = 0
    echoed: int = 0
    failed: int = 0
    problem: str = ""


class PairSums(msgspec.Struct, omit_defaults=True):
    """A canary and a node like it, and what both had in the same hours; by measure."""

    canary: str
    control: str
    hours: dict[str, float] = {}
    with_entry: dict[str, float] = {}
    without: dict[str, float] = {}


class EntryState(msgspec.Struct, omit_defaults=True):
    """Knowledge of an entry; the last of ``history`` is in force. Pairs are of its version."""

    history: list[Version] = []
    nodes: NodeCounts = NodeCounts()
    canary: str = ""
    paused: Pause | None = None
    pairs: list[PairSums] = []
    report: dict[str, Any] = {}

    @property
    def version(self) -> str:
        """The version in force, "" before the first."""
        return self.history[-1].version if self.history else ""


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """Order of somebody for an entry: a pause, or ``accepted``, a version not to judge."""

    at: str = ""
    by: str = ""
    why: str = ""
    paused: bool = False
    accepted: str = ""


_OBSERVED = msgspec.json.Decoder(dict[str, EntryState])
_ORDERS = msgspec.json.Decoder(dict[str, Order])


def read_observed(data: Mapping[str, str]) -> dict[str, EntryState]:
    """The manager's part.

    Raises:
        ValueError: somebody else has changed it.
    """
    return _OBSERVED.decode(data.get(OBSERVED) or "{}")


def read_orders(data: Mapping[str, str]) -> dict[str, Order]:
    """The part of people.

    Raises:
        ValueError: it cannot be read.
    """
    return _ORDERS.decode(data.get(ORDERS) or "{}")


def written(observed: Mapping[str, EntryState]) -> str:
    """The manager's part as text, within ``MOST_BYTES`` as far as contents can be dropped."""
    text = msgspec.json.encode(observed)
    while len(text) > MOST_BYTES and _drop_oldest(observed):
        text = msgspec.json.encode(observed)
    return text.decode()


def _drop_oldest(observed: Mapping[str, EntryState]) -> bool:
    """Drop the content of the oldest version that has one, but of none that is in force."""
    oldest = min(
        (
            (version.at, name, index)
            for name, followed in observed.items()
            for index, version in enumerate(followed.history[:-1])
            if version.content is not None
        ),
        default=None,
    )
    if oldest is None:
        return False
    _, name, index = oldest
    history = observed[name].history
    history[index] = msgspec.structs.replace(history[index], content=None)
    return True
