"""What a group has: values for each resource, tasks, processors."""

from __future__ import annotations

from tests.support.fake_resctrl.resources import Resource


class Group:
    """A control group, or (with ``control``) a monitoring group below one.

    ``values`` is by resource and domain.
    """

    __slots__ = ("closid", "control", "cpus", "inode", "mode", "monitors", "tasks", "values")

    def __init__(self, closid: int, inode: int, control: Group | None = None) -> None:
        self.closid = closid
        self.inode = inode
        self.control = control
        self.mode = "shareable"
        self.cpus = 0
        self.tasks: set[int] = set()
        self.monitors: dict[str, Group] = {}
        self.values: dict[str, dict[int, int]] = {}

    def all_tasks(self) -> set[int]:
        """Its tasks, those of its monitoring groups included."""
        return self.tasks.union(*(one.tasks for one in self.monitors.values()))

    def reset(self, resources: list[Resource]) -> None:
        """Give it all of everything, as the root group has at first."""
        self.values = {one.name: dict.fromkeys(one.domains, one.default) for one in resources}
