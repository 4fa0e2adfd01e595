"""A scheduler that decides nothing: nodes take turns. What is left is what the API can do.

Bindings and Events are written as koord-scheduler writes them, by the same code, so that only
deciding, and what it needs to know, makes the difference.
``python -m bench.null_scheduler KUBECONFIG [--events]`` runs until it is ended.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from functools import partial

import anyio
import uvloop
from koord_kube.background_writer import BackgroundWriter
from koord_kube.client import Limits
from koord_kube.connect import connect
from koord_kube.http2_writer import Http2Writer
from koord_kube.informer import Informer
from koord_kube.protocol.resources import NODES, PODS
from koord_kube.protocol.selectors import all_of, field_is_not
from koord_scheduler.extenders.api_documents import ApiDocuments
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.io.binder import Binder
from koord_scheduler.io.extender_client import ExtenderClient
from koord_scheduler.io.pod_reporter import PodReporter
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_reader import ClusterPod, PodReader
from koord_service import memory

_BUSY = 32
"""As koord-scheduler's: with more bindings on their way, Events wait."""


class _Outcome:
    """Nothing fails here."""

    def __init__(self, reporter: PodReporter | None) -> None:
        self._reporter = reporter

    def bound(self, placement: Placement) -> None:
        if self._reporter is not None:
            self._reporter.scheduled(placement)

    def not_bound(self, pod: QueuedPod, reason: str) -> None:
        raise SystemExit(f"null_scheduler: {pod.key}: {reason}")


async def _run(kubeconfig: str, *, events: bool) -> None:
    async with await connect(kubeconfig, Limits(qps=0)) as client:
        writer = Http2Writer(client.cluster)
        reports = BackgroundWriter(
            writer.submit, client.backoff, busy=lambda: binder.unsent > _BUSY
        )
        reporter = PodReporter(reports) if events else None
        extenders = ExtenderClient((), {}, ApiDocuments(()))
        binder = Binder(writer.submit, partial(client.get, PODS), _Outcome(reporter), extenders)
        names = [
            json.loads(node)["metadata"]["name"]
            async for page in client.pages(NODES)
            for node in page.items
        ]
        nodes, numbers = itertools.cycle(names), itertools.count()

        def changed(_: str, before: ClusterPod | None, now: ClusterPod | None) -> None:
            if before is None and now is not None and now.waiting is not None:
                at = time.monotonic()
                pod = QueuedPod(now.key, now.uid, 0, now.waiting, next(numbers), at)
                binder.bind(Placement(pod, next(nodes)))

        pods = Informer(
            client,
            PODS,
            field_selector=all_of(
                *(field_is_not("status.phase", one) for one in ("Succeeded", "Failed"))
            ),
            decode=PodReader(ClusterState()).read,
            on_change=changed,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(pods.run)
            group.start_soon(binder.run)
            group.start_soon(reports.run)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.null_scheduler")
    parser.add_argument("kubeconfig")
    parser.add_argument("--events", action="store_true")
    options = parser.parse_args()
    memory.collect_young_only()
    uvloop.run(_run(options.kubeconfig, events=options.events))
