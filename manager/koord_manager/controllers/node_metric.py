"""Keeps a NodeMetric for each Node."""

from __future__ import annotations

from collections.abc import Callable

from koord_kube.api import Api
from koord_kube.resources import NODE_METRICS

from koord_manager.controllers.node_objects import NodeObjects, Nodes
from koord_manager.controllers.slo_config import SLOConfigs
from koord_manager.reconcilers.node_metric import desired


def controller(
    api: Api, nodes: Nodes, configs: SLOConfigs, tell: Callable[[str], None]
) -> NodeObjects:
    """The controller; see ``NodeObjects``."""
    return NodeObjects(api, NODE_METRICS, desired, nodes, configs, tell=tell)
