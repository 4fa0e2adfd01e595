"""A plugin of the descheduler as somebody else's distribution has it: empties labelled nodes."""

from __future__ import annotations

from typing import ClassVar

from koord_descheduler.framework.round import ProfileRound
from koord_descheduler.plugin import DeschedulerPlugin
from koord_scheduler.arguments.base_args import PluginArgs


class ColdNodesArgs(PluginArgs, frozen=True):
    """Arguments: nodes with this label are to be empty."""

    label: str = "cold"


class ColdNodes(DeschedulerPlugin):
    """Moves pods off nodes with a label."""

    name: ClassVar[str] = "ColdNodes"
    Args: ClassVar[type[ColdNodesArgs]] = ColdNodesArgs

    def __init__(self, args: ColdNodesArgs) -> None:
        self._label = args.label

    def balance(self, cluster: ProfileRound) -> None:
        for name, node in cluster.nodes.items():
            if self._label in node.labels:
                for pod in cluster.pods_on(name):
                    cluster.move(pod, f"its node has the label {self._label}")
