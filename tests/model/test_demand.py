import pytest
from koord_model.demand import InitContainer, amounts, whole_pod


def test_quantities() -> None:
    given = {"cpu": "1500m", "memory": "1Gi", "kubernetes.io/batch-cpu": "2k", "odd": "much"}
    assert amounts(given) == {"cpu": 1500, "memory": 1 << 30, "kubernetes.io/batch-cpu": 2000}
    assert amounts(None) == {}


@pytest.mark.parametrize(
    ("containers", "inits", "expected"),
    [
        ([100, 200], [], 300),
        ([100], [(500, False)], 500),
        ([400], [(500, False), (300, False)], 500),
        ([400], [(200, True)], 600),
        # The second init container runs while the sidecar does.
        ([100], [(200, True), (500, False)], 700),
        # The first is through before the sidecar starts.
        ([100], [(500, False), (200, True)], 500),
    ],
)
def test_a_pod_needs_the_most_that_runs_at_once(
    containers: list[int], inits: list[tuple[int, bool]], expected: int
) -> None:
    before = [InitContainer({"cpu": one}, beside) for one, beside in inits]
    assert whole_pod([{"cpu": one} for one in containers], before) == {"cpu": expected}


def test_what_is_set_for_the_pod_counts_and_its_overhead_on_top() -> None:
    together = whole_pod(
        [{"cpu": 100, "memory": 7}], pod={"cpu": 900}, overhead={"cpu": 50, "memory": 1}
    )
    assert together == {"cpu": 950, "memory": 8}
