import errno

import pytest
from koord_host.deeds import LESS, Deeds
from koord_host.outcomes import Outcome, Result

from tests.host.conftest import HOOKS, STRATEGY, MakeNode, Node, only, wish

BE = "kubepods/besteffort"
POD = f"{BE}/pod1"
RECLAIM = "memory.reclaim"


def do(node: Node, value: int, place: str = POD, knob: str = RECLAIM) -> Result:
    node.executor.do(STRATEGY, (wish(place, knob, value, "pages nobody misses"),))
    return only(node.executor.apply())


def test_done_once_and_journalled(node2: Node) -> None:
    node2.files.set_usage(POD, 8 << 20, reclaimable=4 << 20)
    result = do(node2, 1 << 20)
    assert (result.outcome, result.owner, result.alert) == (Outcome.WRITTEN, "cpusuppress", False)
    assert node2.value(POD, "memory.limit_in_bytes") == "max"
    assert node2.files.read(f"{node2.files.directory(POD)}/memory.current").strip() == str(7 << 20)
    [change] = node2.changes()
    assert (change.owner, change.group, change.knob) == ("cpusuppress", POD, RECLAIM)
    assert (change.old, change.new, change.pod) == (None, 1 << 20, "ns/pod")
    assert change.why == "pages nobody misses"
    assert node2.executor.apply().results == ()
    assert node2.later().results == ()
    assert len(node2.originals) == 0


def test_what_waits_is_done_once_with_its_newest_value(node2: Node) -> None:
    node2.files.set_usage(POD, 8 << 20, reclaimable=4 << 20)
    for value in (1 << 20, 2 << 20):
        node2.executor.do(STRATEGY, (wish(POD, RECLAIM, value, "pages nobody misses"),))
    assert only(node2.executor.apply()).new == 2 << 20
    assert node2.files.read(f"{node2.files.directory(POD)}/memory.current").strip() == str(6 << 20)


def test_less_than_asked_for_is_no_trouble(node2: Node) -> None:
    node2.files.set_usage(POD, 8 << 20, reclaimable=1 << 20)
    result = do(node2, 2 << 20)
    assert (result.outcome, result.reason, result.alert) == (Outcome.WRITTEN, LESS, False)
    assert node2.changes()[0].why == f"pages nobody misses; {LESS}"


def test_not_on_v1(node: Node) -> None:
    result = do(node, 1 << 20)
    assert (result.outcome, result.reason) == (
        Outcome.UNSUPPORTED,
        "this kernel has no memory.reclaim",
    )
    assert do(node, 1 << 20).news is False


def test_a_group_that_is_gone(node2: Node) -> None:
    result = do(node2, 4096, f"{BE}/pod9")
    assert (result.outcome, result.news) == (Outcome.GONE, False)


def test_a_kernel_without_the_file(node2: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(path: str, _: str) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

    monkeypatch.setattr(node2.files, "write", write)
    assert do(node2, 4096).outcome is Outcome.UNSUPPORTED


def test_refused_is_told_once_and_not_tried_again(node2: Node) -> None:
    node2.files.refusals[f"{node2.files.directory(POD)}/{RECLAIM}"] = errno.EINVAL
    result = do(node2, 4096)
    assert (result.outcome, result.errno, result.news) == (Outcome.REFUSED, errno.EINVAL, True)
    assert do(node2, 8192).news is False
    node2.files.refusals.clear()
    assert node2.later().results == ()
    assert do(node2, 4096).outcome is Outcome.WRITTEN


@pytest.mark.parametrize(
    ("knob", "value", "words"),
    [
        (RECLAIM, 0, "0 is out of range"),
        ("cpu.shares", 5, "cpu.shares is a state, not to be done once"),
        ("cpu.sheep", 5, "is no knob"),
    ],
)
def test_what_is_no_deed(node2: Node, knob: str, value: int, words: str) -> None:
    result = do(node2, value, knob=knob)
    assert (result.outcome, result.alert) == (Outcome.INVALID, True)
    assert words in result.reason
    assert node2.files.writes == []


def test_a_deed_is_no_state(node2: Node) -> None:
    result = only(node2.wish(wish(POD, RECLAIM, 4096)))
    assert result.outcome is Outcome.INVALID
    assert result.reason == "memory.reclaim is to be done once, and has no state"
    assert node2.executor.base(result.target) is None


def test_troubles_of_groups_that_went_are_forgotten_in_time(make_node: MakeNode) -> None:
    node = make_node(1)
    deeds = Deeds(node.files, node.layout, node.journal, lambda: 0.0)
    for number in range(5000):
        deeds.put(HOOKS, wish(f"{BE}/pod9{number}", RECLAIM, 4096))
    assert len(deeds.carry_out()) == 5000
    assert not deeds
    assert len(deeds._told) < 5000
