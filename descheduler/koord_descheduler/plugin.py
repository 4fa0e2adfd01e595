"""The contract of the descheduler's plugins. No IO.

A plugin looks at the cluster of a round and asks for moves. The round says whether a pod may go:
filters, budgets, disruption budgets and a place for it, found by the scheduler's own rules on the
virtual cluster that all plugins of the round share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from koord_scheduler.arguments.base_args import PluginArgs

from koord_descheduler.objects.observed_pod import ObservedPod

if TYPE_CHECKING:
    from koord_descheduler.framework.round import ProfileRound


class DeschedulerPlugin:
    """One reason to move pods, or not to; what a plugin does not override does not concern it.

    It is made with its arguments, once for each profile that enables it, and lives as long as the
    program: it may count over rounds.
    """

    name: ClassVar[str]
    Args: ClassVar[type[PluginArgs]] = PluginArgs
    evicts: ClassVar[bool] = False
    """True if moves can be carried out its way (extension point Evict)."""
    dry_run = False
    """True: its moves are notes of the plan, and nothing else."""

    def __init__(self, args: PluginArgs) -> None:
        """``args`` are of the type ``Args``."""

    def deschedule(self, cluster: ProfileRound) -> None:
        """Move pods that must not be where they are; before all plugins' ``balance``."""

    def balance(self, cluster: ProfileRound) -> None:
        """Move pods so that nodes are used better."""

    def filter(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        """Return why a pod may not move, in a line; "" if it may. It costs little."""
        return ""

    def pre_eviction_filter(self, pod: ObservedPod, cluster: ProfileRound) -> str:
        """The same for a pod that is about to move: it may cost more."""
        return ""
