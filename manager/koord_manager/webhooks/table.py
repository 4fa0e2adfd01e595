"""The manager's webhooks: one row each. No IO.

Names and paths are Koordinator's. Its webhooks of ElasticQuotas and bindings are not here, nor
the one of updated pods, of which nothing is changed.
"""

from __future__ import annotations

from koord_manager.webhooks.admission import Operation
from koord_manager.webhooks.config_maps import validate_config_map
from koord_manager.webhooks.configurations import Row
from koord_manager.webhooks.nodes.amplification import mutate_node_status
from koord_manager.webhooks.nodes.node_strategies import validate_node
from koord_manager.webhooks.pods.mutating import mutate_pod
from koord_manager.webhooks.pods.validating import validate_pod
from koord_manager.webhooks.reservations import mutate_reservation

_CREATE, _UPDATE, _DELETE = Operation.CREATE, Operation.UPDATE, Operation.DELETE

TABLE = (
    Row(
        name="mpod-create.koordinator.sh",
        path="/mutate-pod",
        handler=mutate_pod,
        gate="PodMutatingWebhook",
        resource="pods",
        operations=(_CREATE,),
        mutating=True,
        fails=True,
        in_control_plane=False,
    ),
    Row(
        name="vpod.koordinator.sh",
        path="/validate-pod",
        handler=validate_pod,
        gate="PodValidatingWebhook",
        resource="pods",
        # Of what else may be written of a pod, this alone changes what it asks for.
        subresources=("resize",),
        operations=(_CREATE, _UPDATE),
        mutating=False,
        fails=True,
        in_control_plane=False,
    ),
    Row(
        name="mreservation-create.koordinator.sh",
        path="/mutate-reservation",
        handler=mutate_reservation,
        gate="ReservationMutatingWebhook",
        group="scheduling.koordinator.sh",
        version="v1alpha1",
        resource="reservations",
        operations=(_CREATE,),
        mutating=True,
        fails=True,
        namespaced=False,
    ),
    Row(
        name="mnode-status.koordinator.sh",
        path="/mutate-node-status",
        handler=mutate_node_status,
        gate="NodeMutatingWebhook",
        resource="nodes/status",
        operations=(_UPDATE,),
        mutating=True,
        fails=False,
        namespaced=False,
        seconds=2,
    ),
    Row(
        name="vnode.koordinator.sh",
        path="/validate-node",
        handler=validate_node,
        gate="NodeValidatingWebhook",
        resource="nodes",
        operations=(_CREATE, _UPDATE),
        mutating=False,
        fails=False,
        namespaced=False,
        seconds=2,
    ),
    # The configuration is an object of the manager's namespace.
    Row(
        name="vconfigmap.koordinator.sh",
        path="/validate-configmap",
        handler=validate_config_map,
        gate="ConfigMapValidatingWebhook",
        resource="configmaps",
        operations=(_CREATE, _UPDATE, _DELETE),
        mutating=False,
        fails=True,
        labelled=("koordinator.sh/configmap-type", "slo-controller-config"),
        in_own=True,
    ),
)
