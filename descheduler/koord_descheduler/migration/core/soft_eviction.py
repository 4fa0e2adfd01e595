"""Notices of SoftEviction: an annotation that asks a pod's owner to end it. No IO."""

from __future__ import annotations

import json

import msgspec
from koord_kube.protocol.api import Object
from koord_model.times import rfc3339
from koord_scheduler.objects.annotations import read_annotations

from koord_descheduler.migration.core.job import MigrationJob
from koord_descheduler.objects.observed_pod import ObservedPod

ANNOTATION_SOFT_EVICTION = "scheduling.koordinator.sh/soft-eviction"

read_annotations(ANNOTATION_SOFT_EVICTION)


class NoticeAuthor(msgspec.Struct, frozen=True):
    """The job that wrote a notice; Koordinator's notices do not say which one."""

    name: str
    uid: str


class _Notice(msgspec.Struct, frozen=True):
    job: NoticeAuthor | None = None


_DECODER = msgspec.json.Decoder(_Notice)


def soft_eviction(job: MigrationJob, now: float) -> dict[str, str]:
    """The annotation of a pod whose owner is to end it."""
    notice: Object = {
        "timestamp": rfc3339(now),
        "initiator": job.trigger,
        "reason": job.eviction_reason,
        "job": {"name": job.name, "uid": job.uid},
    }
    if job.delete_options:
        notice["deleteOptions"] = dict(job.delete_options)
    return {ANNOTATION_SOFT_EVICTION: json.dumps(notice)}


def notice_author(pod: ObservedPod) -> NoticeAuthor | None:
    """The job whose notice a pod has; ``None`` if it has none, or somebody else's."""
    try:
        return _DECODER.decode(pod.annotations.get(ANNOTATION_SOFT_EVICTION, "{}")).job
    except msgspec.MsgspecError:
        return None
