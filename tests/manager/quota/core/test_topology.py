from dataclasses import replace

from koord_manager.quota.core.topology import ADMITTED_SECONDS, QuotaTopology
from koord_model.elastic_quota import ElasticQuota

A = ElasticQuota("a", "n", max={"cpu": 1000}, namespaces=("shop",))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_is_admitted_counts_at_once_and_is_forgotten_unless_it_is_observed() -> None:
    clock = Clock()
    topology = QuotaTopology(monotonic=clock)
    topology.admit("n/a", A)
    assert topology.named("a") == A
    assert topology.name_for_namespace("shop") == "a"
    clock.now = ADMITTED_SECONDS + 1
    assert topology.named("a") is None
    topology.admit("n/a", A)
    observed = replace(A, uid="u", used={"cpu": 1})
    topology.observe("n/a", None, observed)
    clock.now *= 3
    assert topology.named("a") == observed


def test_an_older_state_does_not_undo_what_was_admitted() -> None:
    topology = QuotaTopology([A])
    moved = replace(A, parent="b", namespaces=())
    topology.admit("n/a", moved)
    topology.observe("n/a", A, replace(A, used={"cpu": 1}))
    assert topology.children("b") == (moved,)
    assert topology.name_for_namespace("shop") == ""
    topology.admit("n/a", None)
    assert topology.named("a") is None
    topology.observe("n/a", A, None)
    assert topology.all_of("a") == ()


def test_of_several_quotas_of_one_name_the_first_by_namespace_counts() -> None:
    other = ElasticQuota("a", "m")
    topology = QuotaTopology([A, other])
    assert topology.all_of("a") == (other, A)
    topology.observe("m/a", other, None)
    assert topology.named("a") == A
