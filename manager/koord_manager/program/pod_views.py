"""Views of each pod for the leader: one list and one watch for all that need every pod. No IO."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from koord_kube.informer import Handler

from koord_manager.metrics_apis.core.pods import MetricPod, read_pod
from koord_manager.noderesource.core.pods import PodSummary, read_pod_summary


class PodViews(msgspec.Struct, frozen=True, gc=False):
    """A pod as the calculation of batch resources sees it, and as the resource metrics API does."""

    summary: PodSummary
    metric: MetricPod


def read_views(raw: bytes) -> PodViews:
    """Decode a Pod.

    Raises:
        ValueError: it is not a Pod.
    """
    return PodViews(read_pod_summary(raw), read_pod(raw))


def views_handler(
    summary: Handler[PodSummary], metric: Handler[MetricPod]
) -> Callable[[str, PodViews | None, PodViews | None], None]:
    """A handler that tells each of the two only of what changes for it."""

    def changed(key: str, before: PodViews | None, now: PodViews | None) -> None:
        was = before.summary if before else None
        is_now = now.summary if now else None
        if was != is_now:
            summary(key, was, is_now)
        measured = before.metric if before else None
        is_measured = now.metric if now else None
        if measured != is_measured:
            metric(key, measured, is_measured)

    return changed
