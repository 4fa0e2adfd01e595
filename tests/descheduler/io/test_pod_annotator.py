"""Annotations are written to the pod that they were asked for, and to no other."""

from __future__ import annotations

import json

import pytest
from koord_descheduler.io.pod_annotator import PodAnnotator
from koord_descheduler.objects.observed_pod import ObservedPodReader
from koord_descheduler.planner.move import DesiredAnnotations
from koord_kube.protocol.api import ApiError, ConflictError, NotFoundError, NotLeadingError
from koord_kube.protocol.request import Request

from tests.descheduler.clusters import pod

DESIRED = DesiredAnnotations(
    ObservedPodReader().read(json.dumps(pod("p", "a")).encode()), {"k": "v"}, "profile", "Plugin"
)


class Writer:
    """An API that answers each write with the same error."""

    def __init__(self, error: ApiError | None = None) -> None:
        self.requests: list[Request] = []
        self.warnings: list[str] = []
        self._error = error

    async def write(self, request: Request) -> bytes:
        self.requests.append(request)
        if self._error is not None:
            raise self._error
        return b"{}"

    def annotator(self) -> PodAnnotator:
        return PodAnnotator(self.write, self.warnings.append)


async def test_a_patch_names_the_uid() -> None:
    writer = Writer()
    await writer.annotator().write(DESIRED)
    (request,) = writer.requests
    assert request.body == {"metadata": {"uid": "uid-p", "annotations": {"k": "v"}}}


@pytest.mark.parametrize(
    ("error", "warnings"),
    [
        (NotFoundError("gone"), []),
        (ConflictError("another uid"), []),
        (ApiError("no answer"), ["no answer (Plugin tries again in the next round)"]),
    ],
)
async def test_what_fails_waits_for_the_next_round(error: ApiError, warnings: list[str]) -> None:
    writer = Writer(error)
    await writer.annotator().write(DESIRED)
    assert writer.warnings == warnings


async def test_who_does_not_lead_hears_of_it() -> None:
    with pytest.raises(NotLeadingError):
        await Writer(NotLeadingError("not leading")).annotator().write(DESIRED)
