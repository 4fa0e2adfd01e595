"""What records are known by."""

from __future__ import annotations

from koord_proto import hook_pb2 as pb
from koord_proxy.rules.records import (
    KEPT_MISSED,
    MissedHookCall,
    RecordKind,
    RuntimeRecord,
    identity,
    labels_of,
    names_of,
)

POD = pb.PodSandboxHookRequest(
    pod_meta={"name": "job", "namespace": "batch", "uid": "u", "attempt": 3},
    labels={"l": "pod"},
    annotations={"a": "pod"},
)
CONTAINER = pb.ContainerResourceHookRequest(
    pod_meta={"name": "job", "namespace": "batch", "uid": "u"},
    container_meta={"name": "main", "attempt": 2},
    pod_labels={"l": "container"},
    pod_annotations={"a": "container"},
    container_annotations={"a": "own"},
)


def test_identity_is_what_lists_have():
    assert identity(RecordKind.POD, POD) == "pod/u/3"
    assert identity(RecordKind.CONTAINER, CONTAINER, "s") == "container/s/main/2"


def test_labels_and_annotations_are_the_pods():
    assert labels_of(POD) == ({"l": "pod"}, {"a": "pod"})
    assert labels_of(CONTAINER) == ({"l": "container"}, {"a": "container"})


def test_names_for_log_lines():
    assert names_of(POD) == {"pod": "batch/job", "container": None}
    assert names_of(CONTAINER) == {"pod": "batch/job", "container": "main"}


def test_each_record_has_misses_of_its_own():
    one, other = (RuntimeRecord(RecordKind.POD, name, POD) for name in "ab")
    assert one.missed == []
    assert one.missed is not other.missed
    calls = [MissedHookCall("s", "h", "r", number) for number in range(KEPT_MISSED + 3)]
    for call in calls:
        one.note([call])
    # Of many the last ones are remembered.
    assert one.missed == calls[3:]


def test_one_that_is_gone_for_good_does_not_push_out_what_another_missed():
    record = RuntimeRecord(RecordKind.CONTAINER, "c", CONTAINER)
    real = MissedHookCall("PreCreateContainer", "koordlet", "no answer", 0.0)
    record.note([real])
    for number in range(3 * KEPT_MISSED):
        record.note([MissedHookCall("PreUpdateContainerResources", "gone", "unreachable", number)])
    assert len(record.missed) == KEPT_MISSED
    assert record.missed[0] == real
    assert record.missed[-1].at == 3 * KEPT_MISSED - 1
