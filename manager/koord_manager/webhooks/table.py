"""The manager's webhooks: one row each. No IO.

Names and paths are Koordinator's, but for that of profiles of services.
"""

from __future__ import annotations

from koord_serving.admission.core.admission import AdmissionOperation
from koord_serving.admission.core.configurations import WebhookDefinition

from koord_manager.noderesource.webhook.resource_amplification import mutate_node_status
from koord_manager.pod_webhook.binding import validate_binding
from koord_manager.pod_webhook.mutating import mutate_pod
from koord_manager.pod_webhook.validating import admit_pod
from koord_manager.profiles.webhook.reservation import mutate_reservation
from koord_manager.quota.webhook.elastic_quota import mutate_elastic_quota, validate_elastic_quota
from koord_manager.service_profiles.core.document import TYPE_LABEL
from koord_manager.service_profiles.webhook.config_map import validate_profile
from koord_manager.slo_config.webhook.config_map import validate_config_map
from koord_manager.slo_config.webhook.node_strategies import validate_node
from koord_manager.webhooks.cluster_view import ClusterView

_CREATE, _UPDATE, _DELETE = (
    AdmissionOperation.CREATE,
    AdmissionOperation.UPDATE,
    AdmissionOperation.DELETE,
)

TABLE: tuple[WebhookDefinition[ClusterView], ...] = (
    WebhookDefinition(
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
    WebhookDefinition(
        name="vpod.koordinator.sh",
        path="/validate-pod",
        handler=admit_pod,
        gate="PodValidatingWebhook",
        resource="pods",
        # Of what else may be written of a pod, this alone changes what it asks for.
        subresources=("resize",),
        operations=(_CREATE, _UPDATE),
        mutating=False,
        fails=True,
        in_control_plane=False,
        writes=True,
    ),
    WebhookDefinition(
        name="vpodbinding.koordinator.sh",
        path="/validate-pod-binding",
        handler=validate_binding,
        gate="BindingAdmissionWebhook",
        resource="pods/binding",
        operations=(_CREATE,),
        mutating=False,
        fails=False,
    ),
    WebhookDefinition(
        name="melasticquota.koordinator.sh",
        path="/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
        handler=mutate_elastic_quota,
        gate="ElasticMutatingWebhook",
        group="scheduling.sigs.k8s.io",
        version="v1alpha1",
        resource="elasticquotas",
        operations=(_CREATE,),
        mutating=True,
        fails=True,
        everywhere=True,
    ),
    WebhookDefinition(
        name="velasticquota.koordinator.sh",
        path="/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
        handler=validate_elastic_quota,
        gate="ElasticValidatingWebhook",
        group="scheduling.sigs.k8s.io",
        version="v1alpha1",
        resource="elasticquotas",
        operations=(_CREATE, _UPDATE, _DELETE),
        mutating=False,
        fails=True,
        everywhere=True,
    ),
    WebhookDefinition(
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
    WebhookDefinition(
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
    WebhookDefinition(
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
    WebhookDefinition(
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
    WebhookDefinition(
        name="vserviceprofile.koordinator.sh",
        path="/validate-service-profile",
        handler=validate_profile,
        gate="ServiceProfiles",
        resource="configmaps",
        operations=(_CREATE, _UPDATE),
        mutating=False,
        fails=False,
        labelled=TYPE_LABEL,
    ),
)

NAMES = frozenset({*(row.name for row in TABLE), "mpod-update.koordinator.sh"})
"""Names in webhook configurations that this program serves; all others are others' to serve.

Of Koordinator's also the one of updated pods, which changes nothing of them.
"""
