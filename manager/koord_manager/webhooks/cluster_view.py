"""All webhooks' view of the cluster besides the object under review. No IO."""

from __future__ import annotations

from dataclasses import dataclass

from koord_manager.pod_webhook.view import PodWebhookView
from koord_manager.slo_config.core.view import SLOConfigView


@dataclass(frozen=True)
class ClusterView(PodWebhookView, SLOConfigView):
    """The views of all rooms in one."""
