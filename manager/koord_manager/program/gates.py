"""Feature gates of the manager: Koordinator's with all defaults but one, and ours. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord_model import feature_gates

RESOURCE_METRICS = "ResourceMetricsAPI"
CUSTOM_METRICS = "CustomMetricsAPI"
EXTERNAL_METRICS = "ExternalMetricsAPI"
METRICS_APIS = (RESOURCE_METRICS, CUSTOM_METRICS, EXTERNAL_METRICS)

DEFAULTS: Mapping[str, bool] = {
    "BindingAdmissionWebhook": False,
    "ColocationProfileController": False,
    "ColocationProfileSkipMutatingResources": False,
    "ColocationProfileSkipValidatingPriority": False,
    "ConfigMapValidatingWebhook": False,
    CUSTOM_METRICS: False,
    "DisableDefaultQuota": False,
    "DisableDeviceResourceSpec": False,
    "DisableExtendedResourceSpec": False,
    "ElasticMutatingWebhook": True,
    "ElasticQuotaEnableUpdateResourceKey": False,
    "ElasticQuotaGuaranteeUsage": False,
    "ElasticValidatingWebhook": True,
    "EnablePodEnhancedValidator": False,
    "EnableQuotaAdmission": False,
    "EnableQuotaAdmissionOnUpdate": False,
    # The webhook lets pods request it: where nodes do not offer it, they fit nowhere.
    "EnableSyncGPUSharedResource": True,
    EXTERNAL_METRICS: False,
    "KatalystVocabulary": False,
    "ManagedTaints": False,
    "MultiQuotaTree": False,
    "NodeBackstop": False,
    "NodeMutatingWebhook": False,
    "NodeValidatingWebhook": False,
    "PodMutatingWebhook": True,
    "PodResize": False,
    "PodValidatingWebhook": True,
    "ReservationMutatingWebhook": False,
    RESOURCE_METRICS: False,
    "RolloutGuard": False,
    "ServiceProfiles": False,
    "SupportParentQuotaSubmitPod": False,
    "ValidatePodDeviceResource": False,
    "WebhookFramework": True,
}
"""Those that do something here. Our own are CustomMetricsAPI, ExternalMetricsAPI,
KatalystVocabulary, ManagedTaints, NodeBackstop, PodResize, ResourceMetricsAPI, RolloutGuard and
ServiceProfiles."""

UNUSED = frozenset(
    {
        "DisablePVCReservation",
        "ElasticQuotaEvaluationTransformPod",
        "ElasticQuotaIgnorePodOverhead",
        "ElasticQuotaIgnoreTerminatingPod",
        "ElasticQuotaImmediateIgnoreTerminatingPod",
        "PreemptionPolicyTransformer",
        "PriorityTransformer",
    }
)
"""Koordinator's manager has these too; here they change nothing."""


def gates_of(given: Iterable[str]) -> tuple[Mapping[str, bool], tuple[str, ...]]:
    """Every gate, on or off, and those ``given`` ("NAME=true") that are none of ours."""
    return feature_gates.gates_of(given, DEFAULTS)
