"""Who goes first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.keys import ANNOTATION_EVICTION_PRIORITY, LABEL_PRIORITY
from koord_model.priority import LABEL_PRIORITY_CLASS
from koord_model.qos import KubeQoS, QoSClass
from koordlet.qos_manager.core.strategy import EvictionVictim, PodView
from koordlet.qos_manager.eviction.claims import ranking

from tests.support.views import pod_view


def names(victims: tuple[EvictionVictim, ...]) -> list[str]:
    return [victim.pod.uid for victim in victims]


def one(pod: PodView) -> float:
    return 1.0


def by(amounts: dict[str, float]) -> ranking.ReleaseOfPod:
    return lambda pod: amounts.get(pod.uid)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (pod_view(priority=5100, qos=QoSClass.BE), 5100),
        (pod_view(priority=-5), -5),
        (pod_view(qos=QoSClass.BE), 5500),
        (pod_view(priority=0, qos=QoSClass.BE), 5500),
        (pod_view(qos=QoSClass.LS), 9500),
        (pod_view(kube=KubeQoS.BEST_EFFORT), 5500),
        (pod_view(labels={LABEL_PRIORITY_CLASS: "koord-mid"}), 7500),
        (pod_view(labels={LABEL_PRIORITY_CLASS: "koord-free"}), 3500),
        (pod_view(listed=False, qos=QoSClass.BE), 5500),
    ],
)
def test_a_pod_without_priority_has_its_class_s(pod: PodView, expected: int) -> None:
    assert ranking.priority(pod) == expected


def test_up_to_a_priority_go_pods_that_are_known_and_have_not_ended() -> None:
    pods = (
        pod_view("low", priority=5000),
        pod_view("even", priority=5999),
        pod_view("high", priority=6000),
        pod_view("prod", qos=QoSClass.LS),
        pod_view("unknown", qos=QoSClass.BE, listed=False),
        pod_view("ended", priority=5000, phase="Failed"),
        pod_view("pending", priority=5000, phase="Pending"),
    )
    assert [pod.uid for pod in ranking.up_to(pods, 5999)] == ["low", "even", "pending"]


def test_best_effort_are_pods_whose_label_says_so() -> None:
    pods = (
        pod_view("be", qos=QoSClass.BE),
        pod_view("unknown", qos=QoSClass.BE, listed=False),
        pod_view("kubernetes-best-effort", kube=KubeQoS.BEST_EFFORT),
        pod_view("ls", qos=QoSClass.LS),
        pod_view("ended", qos=QoSClass.BE, phase="Succeeded"),
    )
    assert [pod.uid for pod in ranking.best_effort(pods)] == ["be", "unknown"]


def test_by_priority_the_annotation_counts_first_then_priority_label_and_use() -> None:
    pods = [
        pod_view("a", priority=5000, annotations={ANNOTATION_EVICTION_PRIORITY: "1"}),
        pod_view("b", priority=7000, annotations={ANNOTATION_EVICTION_PRIORITY: "-1"}),
        pod_view("c", priority=6000),
        pod_view("d", priority=5000, labels={LABEL_PRIORITY: "5001"}),
        pod_view("e", priority=5000, labels={LABEL_PRIORITY: "10"}),
        pod_view("f", priority=5000),
        pod_view("g", priority=5000),
        pod_view("h", priority=5000),
    ]
    freed = dict.fromkeys("abcdefh", 1.0) | {"g": 2.0}
    assert names(ranking.by_priority(pods, by(freed))) == ["b", "e", "g", "f", "h", "d", "c", "a"]


@pytest.mark.parametrize("text", ["", "x", "1_0", " 9", "9.5", "--9", "9" * 30, "2147483648", "٣"])
def test_an_invalid_eviction_priority_does_not_count(text: str) -> None:
    pods = [
        pod_view("a", priority=2, annotations={ANNOTATION_EVICTION_PRIORITY: text}),
        pod_view("b", priority=1),
        pod_view("c", priority=9, annotations={ANNOTATION_EVICTION_PRIORITY: "+1"}),
    ]
    assert names(ranking.by_priority(pods, one)) == ["b", "a", "c"]


def test_by_use_priority_counts_first() -> None:
    pods = [pod_view(name, priority=5001 if name == "a" else 5000) for name in "abcd"]
    used = {"a": 9.0, "b": 1.0, "c": 3.0, "d": 1.0}
    assert names(ranking.by_use(pods, by(used))) == ["c", "b", "d", "a"]
    # Another measure than what is released; unknown ones go last.
    assert names(ranking.by_use(pods, one, by({"d": 1.0}))) == ["d", "b", "c", "a"]


def test_the_lowest_class_goes_first_in_our_own_order() -> None:
    priorities = {"mid": 7000, "batch": 5500, "busy": 5500, "free": 3000}
    pods = [pod_view(name, priority=priority) for name, priority in priorities.items()]
    pods.append(pod_view("prod", priority=100, qos=QoSClass.LS))
    used = dict.fromkeys(("prod", "mid", "batch", "free"), 1.0) | {"busy": 5.0}
    assert names(ranking.lowest_first(pods, by(used))) == ["free", "busy", "batch", "mid", "prod"]


def test_pods_that_free_nothing_or_an_unknown_amount_are_no_victims() -> None:
    pods = [pod_view(name) for name in ("a", "b", "c")]
    for rank in (ranking.by_priority, ranking.by_use, ranking.lowest_first):
        assert names(rank(pods, by({"a": 0.0, "b": 2.0}))) == ["b"]


def test_first_to_go_are_as_many_as_it_takes() -> None:
    victims = [EvictionVictim(pod_view(name), 2.0) for name in ("a", "b", "c")]
    needed = [len(ranking.first_to_go(victims, need)) for need in (0, 1, 2, 3, 5, 9)]
    assert needed == [0, 1, 1, 2, 3, 3]


@given(
    st.lists(
        st.tuples(
            st.integers(-3, 3).map(str) | st.just("x"),
            st.sampled_from([None, 0, 3000, 5000, 7000, 9000]),
            st.floats(0, 10),
        ),
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_does_not_depend_on_the_order_in_which_pods_are_known(
    given_pods: list[tuple[str, int | None, float]], random: object
) -> None:
    pods = [
        pod_view(f"p{n}", priority=priority, annotations={ANNOTATION_EVICTION_PRIORITY: text})
        for n, (text, priority, _) in enumerate(given_pods)
    ]
    freed = by({f"p{n}": amount for n, (*_, amount) in enumerate(given_pods)})
    mixed = pods.copy()
    random.shuffle(mixed)  # type: ignore[attr-defined]
    for rank in (ranking.by_priority, ranking.by_use, ranking.lowest_first):
        assert rank(pods, freed) == rank(mixed, freed)
        assert all(victim.releases > 0 for victim in rank(pods, freed))
