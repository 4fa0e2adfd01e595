"""Core scheduling groups: whose tasks may run side by side on the threads of one core."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class GroupKind(StrEnum):
    """Source of a group's name: names of different kinds never mean the same group."""

    NONE = "none"  # tasks without a cookie
    DEFAULT = "default"  # all pods that name no group
    LABEL = "label"  # pods with the same group label
    POD = "pod"  # one pod alone, by its UID


@dataclass(frozen=True, slots=True, order=True)
class CoreSchedGroup:
    """A group of tasks; ``expeller`` keeps classes that expel others apart from them.

    Anybody may write any label. So the kind is part of what a group is: a label that says
    what a pod's UID is, or ends as something else does, names a group of labels all the same.
    """

    kind: GroupKind
    name: str = ""
    expeller: bool = False

    def __str__(self) -> str:
        text = f"{self.kind} {self.name}" if self.name else f"{self.kind}"
        return f"{text} (expeller)" if self.expeller else text


NO_GROUP = CoreSchedGroup(GroupKind.NONE)
"""The group of tasks that are to have no cookie."""
