"""Arguments of Koordinator's ElasticQuota, with its defaults. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from koord_model import duration
from koord_model.demand import Amounts, amount

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import Strict
from koord_scheduler.arguments.problems import problem
from koord_scheduler.plugins.elastic_quota.admission import AdmissionRules
from koord_scheduler.plugins.elastic_quota.controller import QuotaDuties
from koord_scheduler.plugins.elastic_quota.overuse import RevokeRules
from koord_scheduler.plugins.elastic_quota.plugin import ElasticQuotaSettings
from koord_scheduler.plugins.elastic_quota.quota_trees import UNLIMITED, QuotaRules

_Quantity = str | int
_HOOKS = "none: quotas have no hook plugins here, as Koordinator's are Go code; remove them"


class HookPluginConf(Strict, frozen=True):
    """A hook plugin of quotas."""

    key: str = ""
    factory_key: str = ""
    factory_args: str = ""


class ElasticQuotaArgs(PluginArgs, frozen=True):
    """Arguments of ElasticQuota.

    Those of queueing hints make no difference: pods wait until their quota lets them in.
    """

    delay_evict_time: str = "120s"
    revoke_pod_interval: str = "1s"
    default_quota_group_max: dict[str, _Quantity] | None = None
    system_quota_group_max: dict[str, _Quantity] | None = None
    quota_group_namespace: str = ""
    monitor_all_quotas: bool | None = None
    enable_check_parent_quota: bool | None = None
    enable_runtime_quota: bool | None = None
    enable_min_quota_scale: bool | None = None
    disable_default_quota_preemption: bool | None = None
    enable_queue_hint: bool | None = None
    quota_snapshot_update_interval: str = "120s"
    hook_plugins: tuple[HookPluginConf, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        for name, value in (
            ("delayEvictTime", self.delay_evict_time),
            ("revokePodInterval", self.revoke_pod_interval),
            ("quotaSnapshotUpdateInterval", self.quota_snapshot_update_interval),
        ):
            if _seconds(value) is None:
                yield problem(f"{path}.{name}", value, "a duration like 2m, not below 0")
        for name, listed in (
            ("defaultQuotaGroupMax", self.default_quota_group_max),
            ("systemQuotaGroupMax", self.system_quota_group_max),
        ):
            for resource, quantity in (listed or {}).items():
                found = amount(resource, str(quantity))
                if found is None or found < 0:
                    at = f"{path}.{name}.{resource}"
                    yield problem(at, quantity, "a quantity that is not negative")
        if self.hook_plugins:
            yield problem(
                f"{path}.hookPlugins",
                [hook_plugin.key for hook_plugin in self.hook_plugins],
                _HOOKS,
            )

    @property
    def namespace(self) -> str:
        """Namespace of the root, the system and the default quota."""
        return self.quota_group_namespace or "koordinator-system"

    def settings(self) -> ElasticQuotaSettings:
        """Return the settings of the plugin."""
        return ElasticQuotaSettings(
            QuotaRules(
                scales_min=self.enable_min_quota_scale is not False,
                default_max=_amounts(self.default_quota_group_max),
                system_max=_amounts(self.system_quota_group_max),
            ),
            AdmissionRules(
                uses_runtime=self.enable_runtime_quota is not False,
                checks_parents=bool(self.enable_check_parent_quota),
            ),
            spares_default=self.disable_default_quota_preemption is not False,
            duties=QuotaDuties(self.namespace, self.revoke_rules()),
        )

    def revoke_rules(self) -> RevokeRules | None:
        """Return the rules for evicting pods of overused quotas; ``None``: never."""
        if not self.monitor_all_quotas or self.enable_runtime_quota is False:
            return None
        delay, interval = _seconds(self.delay_evict_time), _seconds(self.revoke_pod_interval)
        return RevokeRules(delay or 0.0, interval or 0.0)


def _seconds(text: str) -> float | None:
    try:
        found = duration.seconds(text)
    except ValueError:
        return None
    return found if found >= 0 else None


def _amounts(quantities: Mapping[str, _Quantity] | None) -> Amounts:
    if not quantities:
        return UNLIMITED
    return {name: amount(name, str(quantity)) or 0 for name, quantity in quantities.items()}
