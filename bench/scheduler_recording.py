"""Costs of recording in the scheduler: CPU of the event loop a pod, and bytes of the file.

``python -m bench.scheduler_recording`` measures and writes bench/results/scheduler_recording.*.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from koord_scheduler.config.scheduler_config import default_scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.recording import Record, recorded_kind, recording_line
from koord_scheduler.program.make_scheduler import make_scheduler
from koord_service import memory

from bench import report
from bench.report import Measure
from bench.scheduler_core import node, pod

NODES, PODS, CLASSES = 5_000, 6_000, 200
ROUNDS = 5


class RecordedRun(NamedTuple):
    """CPU in µs a pod, and the lines of the recording."""

    micros: float
    lines: list[bytes]


def life(*, records: bool) -> RecordedRun:
    """Each pod is created, decided, and bound; the API's events are read as they come."""
    lines: list[bytes] = []
    record: Record | None = (lambda one: lines.append(recording_line(one))) if records else None
    scheduler = make_scheduler(default_scheduler_config(), 0, record)
    kinds = {}
    for kind in (*cluster_kinds(scheduler), pod_kind(scheduler, time.monotonic)):
        name = kind.resource.kind
        kinds[name] = recorded_kind(kind, record, time.monotonic) if record else kind
    for number in range(NODES):
        kinds["Node"].put(f"node-{number}", kinds["Node"].read(node(number)))
    lines.clear()
    rng = random.Random(1)
    waiting = [_pod(rng, number) for number in range(PODS)]
    began = time.process_time()
    for number, raw in enumerate(waiting):
        kinds["Pod"].put(f"team/pod-{number}", kinds["Pod"].read(raw))
        scheduler.tick(0.0)
        decision = scheduler.decide(0.0)
        assert isinstance(decision, Placement)
        spec = msgspec.json.encode({"nodeName": decision.node})[1:-1]
        bound = raw.replace(b'"spec": {', b'"spec": {%b, ' % spec)
        kinds["Pod"].put(decision.pod.key, kinds["Pod"].read(bound))
    return RecordedRun((time.process_time() - began) / PODS * 1e6, lines)


def _pod(rng: random.Random, number: int) -> bytes:
    """As the API server has it: a template's other fields, which are not recorded."""
    document = msgspec.json.decode(pod(number, rng.randrange(CLASSES), "spread"))
    uid = f"{rng.getrandbits(32):08x}-8f0c-4d6e-9a77-{rng.getrandbits(48):012x}"
    document["metadata"] |= {"uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"}
    environment = [{"name": f"SETTING_{n}", "value": "x" * 40} for n in range(20)]
    document["spec"]["containers"][0] |= {"env": environment, "args": ["--serve"]}
    document["metadata"]["annotations"] = {"checksum/config": "0" * 64}
    return msgspec.json.encode(document).replace(b'"spec":{', b'"spec": {')


def measure(rounds: int = ROUNDS) -> Iterator[Measure]:
    """With and without a recording, in turns."""
    ratios, on, off = [], [], []
    for _ in range(rounds):
        off.append(life(records=False).micros)
        taken = life(records=True)
        on.append(taken.micros)
        ratios.append(on[-1] / off[-1])
    text = b"\n".join(taken.lines)
    packed = len(zlib.compress(text, 1, wbits=31))
    ours, alone = statistics.median(on), statistics.median(off)
    interval = report.median_interval(ratios)
    what = f"{NODES:,} nodes, {CLASSES} classes"
    name = f"{what}: read, decide, read again, recorded"
    yield Measure(name, "µs a pod", ours, "not recorded", alone, None, "", interval)
    yield Measure(f"{what}: the file", "bytes a pod", packed / PODS, "", None, None)
    yield Measure(f"{what}: its text", "bytes a pod", len(text) / PODS, "", None, None)


def main(rounds: int = ROUNDS) -> None:
    memory.keep_freed()  # as the program does
    measures = list(measure(rounds))
    print(report.table(measures))
    report.write(measures, "scheduler_recording", {"rounds": rounds, "profile": "default"})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m bench.scheduler_recording", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    main(parser.parse_args().rounds)
