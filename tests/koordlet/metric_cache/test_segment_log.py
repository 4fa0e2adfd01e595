"""The cache on disk: what a restart, a kill, and a bad disk leave of it."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from koordlet.metric_cache import segment_log
from koordlet.metric_cache.core.interface import Aggregation, TimeWindow
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metric_cache.core.tier import SampleBatch
from koordlet.metric_cache.ring_cache import RingCache
from koordlet.metric_cache.segment_log import SegmentLog

T0 = 1_700_000_400.0
MIB = 1 << 20
NODE = Series("node_cpu_usage")
PODS = [Series("pod_cpu_usage", (f"pod-{number}",)) for number in range(5)]


def cache_in(
    path: Path, reported: list[str] | None = None, max_bytes: int = 100 * MIB
) -> RingCache:
    made = RingCache(str(path), max_bytes, ([] if reported is None else reported).append)
    made.load()
    return made


def fill(cache: RingCache, first: float, last: float, every: int = 1) -> None:
    for second in range(int(first), int(last), every):
        samples = [Sample(one, float(second + number)) for number, one in enumerate(PODS)]
        cache.append(T0 + second, [Sample(NODE, float(second)), *samples])


def seen(cache: RingCache, first: float = 0.0, last: float = T0 * 2) -> dict[Series, list[float]]:
    found = {**cache.points("pod_cpu_usage", TimeWindow(first, last))}
    found.update(cache.points("node_cpu_usage", TimeWindow(first, last)))
    return {one: points.values.tolist() for one, points in found.items()}


def files(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir())


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(
    ("runs", "most"),
    [
        pytest.param([[(0, 100), (40, 41)]], 2, id="a late point"),
        pytest.param([[(n * 10, n * 10 + 10)] for n in range(20)], 2, id="many restarts"),
        pytest.param([[(n, n + 150)] for n in (0, 900, 1800)], 6, id="minutes no run sealed"),
        pytest.param([[(0, 500), (9000, 9300), (800, 1500)]], 8, id="a clock put back"),
        pytest.param([[(0, 500), (-T0 + 99, -T0 + 299), (700, 900)]], 8, id="a clock in 1970"),
    ],
)
def test_a_restart_knows_all_again(tmp_path, runs, most, killed):
    """As if one cache in memory had seen it all."""
    memory = RingCache(None, 0, print)
    for fills in runs:
        cache = cache_in(tmp_path / "a" / "b")
        for first, last in fills:
            fill(cache, first, last)
            fill(memory, first, last)
        # A kill leaves what was written without being asked to.
        cache._log.close() if killed else cache.close()
    for _ in range(2):
        again = cache_in(tmp_path / "a" / "b")
        assert seen(again) == seen(memory)
        assert (again.state().problem, again.state().refused) == ("", 0)
        again.close()
    assert len(files(tmp_path / "a" / "b")) <= most


@pytest.mark.parametrize("boot", [99.0, T0 + 30 * 86400.0], ids=["in 1970", "a month ahead"])
def test_a_boot_with_a_wrong_clock_keeps_what_earlier_runs_wrote(tmp_path, boot):
    cache = cache_in(tmp_path)
    fill(cache, 0, 1800)
    cache.close()
    for minutes in (0, 1):
        cache = cache_in(tmp_path)
        back = 1860 + 120 * minutes
        fill(cache, boot - T0, boot - T0 + 9)
        fill(cache, back, back + 60)
        now = T0 + back + 59
        found = cache.merged("node_cpu_usage", TimeWindow(now - 2400, now), [Aggregation.COUNT])
        assert found[Aggregation.COUNT] == 1800 + 60 * (minutes + 1)
        cache.close()


def test_twelve_hours_survive_a_restart(tmp_path):
    cache = cache_in(tmp_path)
    fill(cache, 0, 12 * 3600, 20)
    whole = "node_cpu_usage", TimeWindow(T0, T0 + 12 * 3600), tuple(Aggregation)
    wanted = cache.merged(*whole)
    assert wanted[Aggregation.COUNT] == 12 * 180
    for _ in range(2):
        cache.close()
        cache = cache_in(tmp_path)
        assert cache.merged(*whole) == wanted
    cache.close()


def test_old_files_are_deleted(tmp_path):
    cache = cache_in(tmp_path)
    fill(cache, 0, 16 * 3600, 60)
    names = files(tmp_path)
    assert len([one for one in names if one.startswith("raw")]) in range(6, 10)
    assert len([one for one in names if one.startswith("coarse")]) in range(6, 9)
    assert cache.state().disk_bytes == sum(one.stat().st_size for one in tmp_path.iterdir())
    assert all(one.stat().st_mode & 0o777 == 0o640 for one in tmp_path.iterdir())
    cache.close()


def test_bytes_bound_the_files(tmp_path):
    cache = cache_in(tmp_path, max_bytes=100_000)
    for second in range(6000):
        cache.append(T0 + second, [Sample(NODE, float(second))])
        assert cache.state().disk_bytes <= 100_000
    assert sum(one.stat().st_size for one in tmp_path.iterdir()) <= 100_000
    assert cache.state().problem == ""
    cache.close()
    # The newest is what stays.
    assert seen(cache_in(tmp_path, max_bytes=100_000), T0 + 5000)[NODE] == [
        float(second) for second in range(5000, 6000)
    ]


def test_bytes_too_few_for_anything_are_said(tmp_path):
    reported: list[str] = []
    cache = cache_in(tmp_path, reported, max_bytes=20)
    fill(cache, 0, 10)
    assert "tsdb-max-bytes 20" in cache.state().problem
    assert reported == [cache.state().problem]
    assert len(seen(cache)[NODE]) == 10
    assert files(tmp_path) == []


def test_a_torn_tail_is_cut_off_silently(tmp_path):
    reported: list[str] = []
    cache = cache_in(tmp_path)
    fill(cache, 0, 10)
    cache.close()
    (raw,) = tmp_path.iterdir()
    raw.write_bytes(raw.read_bytes()[:-3])
    cache = cache_in(tmp_path, reported)
    assert seen(cache)[NODE] == [float(second) for second in range(9)]
    fill(cache, 9, 20)
    cache.close()
    assert seen(cache_in(tmp_path, reported))[NODE] == [float(second) for second in range(20)]
    assert reported == []


def test_a_bad_file_is_set_aside_and_said(tmp_path):
    reported: list[str] = []
    cache = cache_in(tmp_path)
    fill(cache, 0, 1300)
    cache.close()
    first = tmp_path / "raw-0000000001.log"
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(data)
    cache = cache_in(tmp_path, reported)
    assert len(reported) == 1
    assert "raw-0000000001.log: bad at byte" in reported[0]
    assert "raw-0000000001.log.corrupt" in files(tmp_path)
    points = seen(cache)[NODE]
    assert points[-700:] == [float(second) for second in range(600, 1300)]
    assert points[:200] == [float(second) for second in range(200)]
    cache.close()
    assert len(reported) == 1
    cache_in(tmp_path, reported).close()
    assert len(reported) == 1


def test_only_the_newest_bad_file_stays(tmp_path):
    for turn in range(4):
        (tmp_path / f"raw-{turn:010d}.log").write_bytes(b"not ours")
        cache_in(tmp_path).close()
    assert files(tmp_path) == ["raw-0000000003.log.corrupt"]


def test_files_of_others_are_left_alone(tmp_path):
    (tmp_path / "wal").mkdir()
    (tmp_path / "raw-0000000001.log").mkdir()
    (tmp_path / "lock").write_text("")
    cache = cache_in(tmp_path)
    fill(cache, 0, 3)
    cache.close()
    assert {"wal", "lock", "raw-0000000001.log", "raw-0000000002.log"} == set(files(tmp_path))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("written")
    cache = cache_in(path)
    fill(cache, 0, 1300, 7)
    cache.close()
    return {one.name: one.read_bytes() for one in path.iterdir()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_anywhere_cost_no_more_than_what_they_hit(tmp_path, written, data):
    for one in tmp_path.iterdir():
        one.unlink()
    for name, whole in written.items():
        flipped = bytearray(whole)
        places = st.lists(st.integers(0, len(whole) - 1), max_size=3)
        for place in data.draw(places, label=name):
            flipped[place] ^= data.draw(st.integers(1, 255))
        (tmp_path / name).write_bytes(flipped)
    cache = cache_in(tmp_path)
    try:
        for series, points in cache.points("pod_cpu_usage", TimeWindow(0, T0 * 2)).items():
            off = points.values - (points.times - T0 + PODS.index(series))
            # Where a minute's points are lost, its average is at its beginning.
            assert ((off == 0) | ((points.times % 60 == 0) & (off > 0) & (off < 60))).all()
        fill(cache, 1300, 1310)
        assert cache.state().problem == ""
    finally:
        cache.close()


def test_no_directory_can_be_made(tmp_path):
    reported: list[str] = []
    (tmp_path / "file").write_text("in the way")
    cache = cache_in(tmp_path / "file" / "metrics", reported)
    fill(cache, 0, 100)
    assert cache.state().problem == reported[0]
    assert "Not a directory" in reported[0]
    assert len(reported) == 1
    assert len(seen(cache)[NODE]) == 100
    cache.close()


def test_two_do_not_write_to_one_directory(tmp_path):
    first = cache_in(tmp_path)
    fill(first, 0, 5)
    second = cache_in(tmp_path)
    fill(second, 5, 9)
    assert "in use by another process" in second.state().problem
    second.close()
    first.close()
    assert len(seen(cache_in(tmp_path))[NODE]) == 5


class Disk:
    """``os.write`` that has so many bytes left."""

    def __init__(self) -> None:
        self.left = 0
        self.full = False
        self._write = os.write

    def write(self, file: int, data: bytes) -> int:
        if self.full:
            part = data[: self.left]
            self.left -= len(part)
            if not part:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self._write(file, part)
        return self._write(file, data)


def batch(at: float, numbers: int = 1) -> SampleBatch:
    series = [Series("pod_cpu_usage", (str(one),)) for one in range(numbers)]
    return SampleBatch(1, False, at, series, b"k", np.full((numbers, 1), at, np.float32))


@pytest.mark.parametrize("left", [0, 1, 30])
def test_a_full_disk_is_said_once_and_written_to_again(tmp_path, monkeypatch, left):
    disk, reported, now = Disk(), list[str](), [0.0]
    monkeypatch.setattr(segment_log.os, "write", disk.write)
    log = SegmentLog(str(tmp_path), MIB, reported.append, lambda: now[0])
    assert list(log.load()) == []
    log.write([batch(1.0)])
    disk.full, disk.left = True, left
    for at in range(2, 100):
        now[0] += 1.0
        log.write([batch(float(at), at)])
    assert log.problem != ""
    assert "kept in memory only" in reported[0]
    assert len(reported) <= 2
    disk.full = False
    now[0] += 60.0
    log.write([batch(100.0)])
    assert log.problem == ""
    log.close()
    again = SegmentLog(str(tmp_path), MIB, reported.append)
    ats = [one.at for one in again.load()]
    assert ats[0] == 1.0
    assert ats[-1] == 100.0
    again.close()
    assert len(reported) <= 2


def test_a_directory_that_was_removed_is_made_again(tmp_path):
    now = [0.0]
    log = SegmentLog(str(tmp_path / "metrics"), MIB, print, lambda: now[0])
    assert list(log.load()) == []
    log.write([batch(1.0)])
    for one in (tmp_path / "metrics").iterdir():
        one.unlink()
    (tmp_path / "metrics").rmdir()
    log.write([batch(700.0)])
    assert "No such file" in log.problem
    now[0] += 61.0
    log.write([batch(760.0)])
    assert log.problem == ""
    assert len(files(tmp_path / "metrics")) == 1
    log.close()


WRITER = textwrap.dedent(
    """
    import itertools, sys
    from koordlet.metric_cache.ring_cache import RingCache
    from koordlet.metric_cache.core.samples import Sample, Series
    cache = RingCache(sys.argv[1], 100 << 20, print)
    series = [Series("pod_cpu_usage", (f"pod-{one}",)) for one in range(300)]
    for second in itertools.count(int(sys.argv[2])):
        cache.append(1.7e9 + second, [Sample(one, float(second)) for one in series])
        print(second, flush=True)
    """
)


def writer(
    path: Path, first: int, limit: Callable[[], None] | None = None
) -> subprocess.Popen[str]:
    search = os.pathsep.join(one for one in sys.path if one)
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": search},
        preexec_fn=limit,
    )


def test_a_kill_loses_nothing_that_was_appended(tmp_path):
    first, moment = 0, random.Random(11)
    for _ in range(3):
        process = writer(tmp_path, first)
        assert process.stdout is not None
        begun = process.stdout.readline()
        time.sleep(moment.random() / 5)
        process.send_signal(signal.SIGKILL)
        done = int((begun + process.communicate()[0]).splitlines()[-1])
        reported: list[str] = []
        cache = cache_in(tmp_path, reported)
        assert reported == []
        points = cache.points("pod_cpu_usage", TimeWindow(1.7e9 + done - 60, 1.7e9 + done))
        assert len(points) == 300
        for one in points.values():
            # Each second up to the one that was printed last.
            wanted = range(max(0, done - 60), done + 1)
            assert one.values.tolist() == [float(second) for second in wanted]
        cache.close()
        first = done + 1


def test_a_file_size_limit_stops_the_disk_and_not_the_cache(tmp_path):
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    process = writer(tmp_path, 0, limit)
    assert process.stdout is not None
    lines = []
    while not lines or lines[-1] != "300":
        lines.append(process.stdout.readline().strip())
    process.kill()
    process.communicate()
    assert [line for line in lines if "kept in memory only" in line]
    reported: list[str] = []
    found = cache_in(tmp_path, reported).points("pod_cpu_usage", TimeWindow(0, 2e9))
    assert len(found) == 300
    assert reported == []
