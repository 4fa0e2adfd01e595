"""A lying plugin's words: only what it was offered counts, within bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from koord_proto.eviction_plugin_pb2 import (
    CNR_CONDITION,
    HARD_MET,
    SOFT_MET,
    Condition,
    DeletionOptions,
    EvictPod,
    GetEvictPodsResponse,
    GetTopEvictionPodsResponse,
    ThresholdMetResponse,
)
from koord_proto.kubernetes_pb2 import EncodedList, Envelope, ObjectMeta, Pod
from koordlet.qos_manager.eviction.plugins.core import answers
from koordlet.qos_manager.eviction.plugins.core.answers import (
    PluginAnswer,
    PluginAnswers,
    PluginCondition,
)
from koordlet.qos_manager.eviction.plugins.core.pods import make_message, slice_list

from tests.support.views import pod_view

OFFERED = {"a": b"", "b": b"", "c": b""}
NONE = PluginAnswer("p", 0)
_uids = st.lists(st.sampled_from(["a", "b", "c", "x", ""]), max_size=8)
_seconds = st.integers(-(1 << 63), (1 << 63) - 1)


def pod(uid: str) -> Pod:
    return Pod(metadata=ObjectMeta(uid=uid))


@given(uids=_uids, targets=_uids, seconds=_seconds, number=st.floats(), hard=st.booleans())
def test_whatever_it_says_is_bounded(
    uids: list[str], targets: list[str], seconds: int, number: float, hard: bool
) -> None:
    options = DeletionOptions(grace_period_seconds=seconds)
    named = [EvictPod(pod=pod(uid), reason="\n" * 9999, deletion_options=options) for uid in uids]
    found = answers.with_named(NONE, GetEvictPodsResponse(evict_pods=named), OFFERED)
    met = ThresholdMetResponse(
        met_type=HARD_MET if hard else SOFT_MET,
        observed_value=number,
        threshold_value=number,
        grace_period_seconds=seconds,
        eviction_scope="memory\x1b[0m" * 99,
        candidate_pods=[pod(uid) for uid in targets],
    )
    assert set(answers.candidates(met, OFFERED)) <= set(OFFERED)
    found = answers.with_threshold(found, met)
    top = GetTopEvictionPodsResponse(
        target_pods=[pod(uid) for uid in targets], deletion_options=options
    )
    found = answers.with_targets(found, top, OFFERED)
    assert [one.uid for one in found.named] == list(
        dict.fromkeys(uid for uid in uids if uid in OFFERED)
    )
    assert all(0 <= one.notice_seconds <= 3600 and len(one.reason) < 500 for one in found.named)
    assert found.met is not None
    known = list(dict.fromkeys(uid for uid in targets if uid in OFFERED))
    assert list(found.met.targets) == (known[:1] if hard else known)
    assert 0 <= found.met.grace_seconds <= 86_400
    assert abs(found.met.observed) < float("inf")
    assert found.met.scope == "unnamed"
    unknown = answers.with_threshold(NONE, ThresholdMetResponse(met_type=9))  # type: ignore[arg-type]
    assert unknown.met is None
    assert found.strange == sum(uid not in OFFERED for uid in [*uids, *targets])


def test_conditions_are_taints_that_there_can_be() -> None:
    def of(**fields: object) -> tuple[PluginCondition, ...]:
        said = Condition(**{"condition_name": "Hot", "met_condition": True} | fields)
        return answers.with_named(NONE, GetEvictPodsResponse(condition=said), OFFERED).conditions

    assert of(effects=["NoSchedule", "NoSchedule", "Kill"]) == (
        PluginCondition("Hot", ("NoSchedule",)),
    )
    on_cnr = {"condition_type": CNR_CONDITION, "effects": ["reclaimed_cores/NoSchedule"]}
    assert of(**on_cnr) == (PluginCondition("Hot", ("reclaimed_cores/NoSchedule",), on_cnr=True),)
    assert of(effects=["NoSchedule"], met_condition=False) == ()
    assert of(effects=["NoSchedule"], condition_name="a/b") == ()
    hot = of(effects=["NoSchedule"])
    said = PluginAnswers(tuple(PluginAnswer(name, 0, conditions=hot) for name in ("p", "q", "off")))
    in_force = answers.conditions_in_force(said, lambda plugin: plugin != "p")
    assert in_force.conditions == (("q", hot[0]),)


def test_a_list_is_sliced_and_a_pod_made_where_there_is_none() -> None:
    items = [pod(uid).SerializeToString() + b"\xfa\x01\x03new" for uid in "ab"]
    raw = EncodedList(items=items).SerializeToString()
    assert slice_list(b"k8s\0" + Envelope(raw=raw).SerializeToString()) == dict(
        zip("ab", items, strict=True)
    )
    view = pod_view("web", priority=7, requests={"cpu": 1500, "memory": 1 << 30}, started=9.0)
    made = Pod.FromString(make_message(view.record, "n1"))
    requests = made.spec.containers[0].resources.requests
    assert (made.metadata.uid, made.spec.priority, made.spec.node_name) == ("web", 7, "n1")
    assert {name: amount.string for name, amount in requests.items()} == {
        "cpu": "1500m",
        "memory": "1073741824",
    }
    assert (made.status.phase, made.status.qos_class) == ("Running", "Burstable")
    unset = Pod.FromString(make_message(pod_view("web").record, "n1"))
    assert unset.spec.HasField("priority")
