"""The observing side's life: what one thread does while another ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, cast

from koord_model.node_slo import NodeSLO
from koordlet.agent import metrics_advisor as module
from koordlet.agent.metrics_advisor import MetricsAdvisor
from koordlet.metrics_advisor.collector_runner import CollectorRunner, ScheduledCollector
from koordlet.metrics_advisor.contract.collector import CollectContext, Samples
from koordlet.prediction.predictor import Predictor

from tests.support.observed import DictionaryCache
from tests.support.processes import PATIENCE


class Predicting:
    """Says what is asked of it, and whether two threads ever did at once."""

    def __init__(self, train: Callable[[], None] = lambda: None) -> None:
        self.asked: list[str] = []
        self.overlapped = False
        self._train = train
        self._busy = threading.Lock()

    def load(self, now: float) -> int:
        self.asked.append("load")
        raise RuntimeError("a defect")

    def train(self, now: float) -> None:
        self._alone("train", self._train)

    def checkpoint(self, now: float, *, everything: bool = False) -> int:
        self._alone("keep all" if everything else "keep", lambda: None)
        return 0

    def _alone(self, what: str, do: Callable[[], None]) -> None:
        if not self._busy.acquire(blocking=False):
            self.overlapped = True
            return
        self.asked.append(what)
        do()
        self._busy.release()


class Cache(DictionaryCache):
    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Waiting:
    """A collector whose source does not answer."""

    def __init__(self) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()

    def collect(self, look: CollectContext) -> Samples:
        self.asked.set()
        self.answer.wait(2 * PATIENCE)
        return Samples()


def made(predicting: Predicting, *watched: ScheduledCollector) -> tuple[MetricsAdvisor, Cache]:
    cache = Cache()
    observer = CollectorRunner(watched, [], cache, tuple, NodeSLO)
    return MetricsAdvisor(observer, cast("Predictor", predicting), cast("Any", None), 0.01), cache


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_what_is_learnt_is_kept_after_the_training_under_way():
    training, go_on = threading.Event(), threading.Event()

    def train() -> None:
        training.set()
        go_on.wait(PATIENCE)

    predicting = Predicting(train)
    observing, cache = made(predicting)
    task = asyncio.get_running_loop().create_task(observing.run())
    # A defect in loading costs what was learnt before, and nothing more.
    await asyncio.to_thread(training.wait, PATIENCE)
    task.cancel()
    await asyncio.sleep(0.05)
    go_on.set()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert not predicting.overlapped
    assert predicting.asked[:2] == ["load", "train"]
    assert predicting.asked[-1] == "keep all"
    assert cache.closed


async def test_a_source_that_hangs_does_not_keep_it_from_stopping(monkeypatch, caplog):
    monkeypatch.setattr(module, "_FINISH_SECONDS", 0.05)
    source = Waiting()
    observing, _ = made(Predicting(), ScheduledCollector("gpu", source, 1.0))
    task = asyncio.get_running_loop().create_task(observing.run())
    await asyncio.to_thread(source.asked.wait, PATIENCE)
    async with asyncio.timeout(PATIENCE):
        await ended(task)
    assert "latest samples and models are lost" in caplog.text
    source.answer.set()
