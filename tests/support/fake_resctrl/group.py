"""What a group has: values for each resource, tasks, a mode."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.fake_resctrl.resources import Resource


@dataclass(slots=True, eq=False)
class Group:
    """``values`` is by resource and domain."""

    closid: int
    inode: int
    mode: str = "shareable"
    tasks: set[int] = field(default_factory=set)
    values: dict[str, dict[int, int]] = field(default_factory=dict)

    def reset(self, resources: list[Resource]) -> None:
        """Give it all of everything, as the root group has at first."""
        self.values = {one.name: dict.fromkeys(one.domains, one.default) for one in resources}
