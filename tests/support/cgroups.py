"""Real cgroup values of a container; see koord_demo.cgroups."""

from koord_demo.cgroups import (
    UNLIMITED,
    CgroupValues,
    container_pid,
    container_values,
    group,
    oom_score_adj,
    read_values,
)

__all__ = [
    "UNLIMITED",
    "CgroupValues",
    "container_pid",
    "container_values",
    "group",
    "oom_score_adj",
    "read_values",
]
