import pytest
from koordlet.states_informer.kubelet_cpus import KubeletCPUs, parse


def test_the_policy_and_the_cpus_given_away() -> None:
    text = (
        '{"policyName":"static","defaultCpuSet":"0,3","checksum":1,'
        '"entries":{"uid-1":{"main":"1-2","side":"3"},"uid-2":{"main":"5"},"uid-3":{"main":""}}}'
    )
    by_pod = {"uid-1": frozenset({1, 2, 3}), "uid-2": frozenset({5})}
    assert parse(text) == KubeletCPUs("static", frozenset({1, 2, 3, 5}), by_pod)


def test_the_default_policy_gives_none_away() -> None:
    assert parse('{"policyName":"none","defaultCpuSet":""}') == KubeletCPUs()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"entries": 1}', '{"entries":{"u":{"m":"x"}}}', "[" * 100_000]
)
def test_what_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)
