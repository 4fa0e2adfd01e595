"""Directories stand in for cgroups: inotify is the kernel's own."""

import asyncio
import errno
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from asyncinotify import Inotify, Mask
from koord_host.knobs.layout import Driver, Layout
from koordlet.states_informer import pod_arrivals
from koordlet.states_informer.pod_arrivals import PodArrivals

from tests.koordlet.conftest import Words
from tests.support.processes import PATIENCE


class Bell:
    def __init__(self) -> None:
        self.rung = asyncio.Event()
        self.times = 0

    def ring(self) -> None:
        self.times += 1
        self.rung.set()

    async def next(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.rung.wait()
        self.rung.clear()


@asynccontextmanager
async def watching(root: Path) -> AsyncIterator[Bell]:
    bell = Bell()
    arrivals = PodArrivals(Layout(1, Driver.CGROUPFS, str(root)), bell.ring)
    task = asyncio.get_running_loop().create_task(arrivals.run())
    await asyncio.sleep(0.05)
    yield bell
    assert not task.done()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_pods_and_containers_come_and_go(tmp_path: Path) -> None:
    besteffort = tmp_path / "cpu/kubepods/besteffort"
    besteffort.mkdir(parents=True)
    async with watching(tmp_path) as bell:
        (besteffort / "pod1").mkdir()
        await bell.next()
        (besteffort / "pod1/c1").mkdir()
        await bell.next()
        (besteffort / "pod1/c1").rmdir()
        await bell.next()
        (besteffort / "pod1").rmdir()
        await bell.next()


async def test_a_pod_that_was_there_before(tmp_path: Path) -> None:
    pod = tmp_path / "cpu/kubepods/burstable/pod1"
    pod.mkdir(parents=True)
    async with watching(tmp_path) as bell:
        (pod / "c1").mkdir()
        await bell.next()


async def test_a_pod_of_the_same_name_comes_again(tmp_path: Path) -> None:
    pod = tmp_path / "cpu/kubepods/pod1"
    pod.mkdir(parents=True)
    async with watching(tmp_path) as bell:
        pod.rmdir()
        await bell.next()
        pod.mkdir()
        await bell.next()
        await asyncio.sleep(0.05)
        bell.rung.clear()
        (pod / "c1").mkdir()
        await bell.next()


async def test_groups_that_are_made_later(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(pod_arrivals, "_AGAIN_SECONDS", 0.05)
    async with watching(tmp_path) as bell:
        (tmp_path / "cpu/kubepods/besteffort").mkdir(parents=True)
        async with asyncio.timeout(PATIENCE):
            # It is found at one of the next looks; pods from then on are noticed.
            for number in itertools.count():
                await asyncio.sleep(0.05)
                (tmp_path / f"cpu/kubepods/besteffort/pod{number}").mkdir()
                if bell.times:
                    break


async def test_files_are_no_pods(tmp_path: Path) -> None:
    (tmp_path / "cpu/kubepods").mkdir(parents=True)
    async with watching(tmp_path) as bell:
        (tmp_path / "cpu/kubepods/file").write_text("")
        await asyncio.sleep(0.1)
        assert not bell.times


class FewWatches(Inotify):
    """The kernel's own, of a user who has ``left`` watches left, or no instance below 0."""

    left = 0

    def __init__(self) -> None:
        if FewWatches.left < 0:
            raise OSError(errno.EMFILE, "Too many open files")
        super().__init__()

    def add_watch(self, path: Any, mask: Mask) -> Any:
        if FewWatches.left <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        FewWatches.left -= 1
        return super().add_watch(path, mask)


@pytest.mark.parametrize("left", [-1, 0, 1])
async def test_watches_that_are_refused_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Callable[..., Words], left: int
) -> None:
    monkeypatch.setattr(pod_arrivals, "_AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(pod_arrivals, "Inotify", FewWatches)
    monkeypatch.setattr(FewWatches, "left", left)
    pods = tmp_path / "cpu/kubepods"
    (pods / "pod1").mkdir(parents=True)
    async with watching(tmp_path) as bell:
        if left > 0:
            (pods / "pod2").mkdir()
            await bell.next()
        await asyncio.sleep(0.2)
        [(event, _)] = words()
        assert event == "inotify unavailable, new pods are noticed late"
        FewWatches.left = 100
        await asyncio.sleep(0.2)
        bell.rung.clear()
        (pods / "pod1/c1").mkdir()
        await bell.next()
