"""The pod webhooks' view of the cluster besides the request. No IO."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from koord_serving.admission.core.admission import Object

from koord_manager.pod_webhook.binding_policy import BindingPolicy
from koord_manager.profiles.core.view import ProfileView
from koord_manager.quota.core.view import QuotaView
from koord_manager.resize.core.view import ResizeView


async def _no_pod(_name: str, _namespace: str) -> Object | None:
    return None


def _no_event(_regarding: Object, _reason: str, _message: str) -> None:
    pass


@dataclass(frozen=True)
class PodWebhookView(QuotaView, ProfileView, ResizeView):
    """Profiles, quotas, resizes, and the rules for pods and their bindings."""

    enhanced_validation: Mapping[str, str] = field(default_factory=dict)
    """The data of the ConfigMap ``pod-enhanced-validator-config``."""
    binding: BindingPolicy = field(default_factory=BindingPolicy)
    pod: Callable[[str, str], Awaitable[Object | None]] = _no_pod
    """Asks for a pod by name and namespace; ``None`` if that is not known."""
    record: Callable[[Object, str, str], None] = _no_event
    """Has a warning written soon: an Event on an object, with a reason and a message."""
