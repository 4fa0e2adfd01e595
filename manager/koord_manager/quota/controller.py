"""Makes a quota of each ElasticQuotaProfile, and keeps its amounts those of the profile's nodes."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import msgspec
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.event_recorder import EventRecorder
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api, ApiError, NotFoundError, NotLeadingError, Object
from koord_kube.protocol.resources import ELASTIC_QUOTAS, QUOTA_PROFILES, Resource
from koord_kube.reconcile_loop import ReconcileLoop
from koord_kube.shared_backoff import backoff_of
from koord_model.keys import LABEL_QUOTA_TREE

from koord_manager.node_objects.controller import NodeInformer
from koord_manager.quota.core.node_quota import desired_quota, new_quota, quota_patch
from koord_manager.quota.core.profile import QuotaProfile, read

AGAIN_SECONDS = 10.0
"""Between two looks at a profile's nodes."""
_SOON_SECONDS = 2.0


class QuotaProfileController:
    """Runs while this manager leads: ``api`` must write only then.

    What becomes of a profile's quota when the profile is deleted is its author's business.
    """

    def __init__(
        self,
        api: Api,
        nodes: NodeInformer,
        recorder: EventRecorder,
        *,
        on_warning: Callable[[str], None],
        again: float = AGAIN_SECONDS,
        pace: ReflectorTiming | None = None,
    ) -> None:
        self._api = api
        self._nodes = nodes
        self._recorder = recorder
        self._on_warning = on_warning
        self._again = again
        self.loop = ReconcileLoop(
            "quotaprofile", self._reconcile, on_warning=on_warning, backoff=backoff_of(api)
        )
        self._profiles: Informer[Object] = Informer(
            api,
            QUOTA_PROFILES,
            decode=msgspec.json.Decoder(Object).decode,
            on_change=lambda key, _before, _now: self.loop.add(key),
            on_warning=on_warning,
            optional=True,
            timing=pace,
        )

    @property
    def problem(self) -> str:
        """Reason why quotas may not be as desired, in a line; "" while there is none."""
        return self._profiles.problem or self.loop.problem

    async def run(self) -> None:
        """For ever; nothing is written before all nodes are known."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._profiles.run)
            await self._nodes.wait_synced()
            group.start_soon(self.loop.run)

    async def _reconcile(self, key: str) -> float | None:
        document = self._profiles.objects.get(key)
        if document is None:
            return None
        try:
            profile = read(document, self._on_warning)
        except ValueError as error:
            # It says nothing that is not in the profile.
            self._report(document, "InvalidQuotaProfile", str(error))
            raise
        try:
            if not profile.has_tree:
                await self._name_tree(profile)
            await self._write(profile)
        except NotLeadingError:
            raise
        except ApiError as error:
            self._failed(document, error)
            return _SOON_SECONDS
        return self._again

    async def _name_tree(self, profile: QuotaProfile) -> None:
        labels = {LABEL_QUOTA_TREE: profile.tree_id}
        patch = {"metadata": {"labels": labels}}
        await self._api.patch(QUOTA_PROFILES, profile.name, patch, profile.namespace)

    async def _write(self, profile: QuotaProfile) -> None:
        desired = desired_quota(profile, self._nodes.objects.values())
        try:
            existing = await self._api.get(ELASTIC_QUOTAS, profile.quota, profile.namespace)
        except NotFoundError:
            made = _kind(ELASTIC_QUOTAS) | new_quota(profile, desired)
            await self._api.create(ELASTIC_QUOTAS, made, profile.namespace)
            return
        if patch := quota_patch(desired, existing):
            await self._api.patch(ELASTIC_QUOTAS, profile.quota, patch, profile.namespace)

    def _failed(self, document: Object, error: ApiError) -> None:
        self._on_warning(f"quotaprofile: {error}; tried again")
        message = "the quota could not be written; the manager's log says why"
        self._report(document, "UpdateQuotaFailed", message)

    def _report(self, document: Object, reason: str, message: str) -> None:
        about = _kind(QUOTA_PROFILES) | document
        self._recorder.record(about, reason, message, warning=True)


def _kind(resource: Resource) -> Object:
    return {"apiVersion": f"{resource.group}/{resource.version}", "kind": resource.kind}
