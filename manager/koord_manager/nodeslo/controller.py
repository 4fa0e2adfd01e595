"""Keeps a NodeSLO for each Node."""

from __future__ import annotations

from collections.abc import Callable

from koord_kube.protocol.api import Api
from koord_kube.protocol.resources import NODE_SLOS

from koord_manager.node_objects.controller import NodeInformer, NodeObjectController
from koord_manager.nodeslo.core.reconciler import desired
from koord_manager.slo_config.informer import SLOConfigInformer


def controller(
    api: Api, nodes: NodeInformer, configs: SLOConfigInformer, on_warning: Callable[[str], None]
) -> NodeObjectController:
    """The controller; see ``NodeObjectController``."""
    return NodeObjectController(api, NODE_SLOS, desired, nodes, configs, on_warning=on_warning)
