import pytest
from koord_model.keys import ANNOTATION_NETWORK_QOS
from koord_model.node_slo import Bandwidth
from koord_model.pod import Pod
from koord_model.traffic import (
    MAX_BITS,
    PodBandwidth,
    bits_of,
    classid,
    handle,
    parse,
    pod_bandwidth,
)


@pytest.mark.parametrize(
    ("minor", "number", "text"), [(2, 0x10002, "1:2"), (0xBEEF, 0x1BEEF, "1:beef")]
)
def test_a_class_as_the_kernel_and_as_its_tools_name_it(minor: int, number: int, text: str) -> None:
    assert (handle(minor), classid(minor)) == (number, text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", PodBandwidth()),
        ("null", PodBandwidth()),
        ("{}", PodBandwidth()),
        ('{"ingressLimit": "10M", "egressLimit": "1Ki"}', PodBandwidth(10_000_000, 1024)),
        ('{"egressLimit": 5000}', PodBandwidth(egress=5000)),
        ('{"ingressLimit": "0", "egressLimit": null, "other": 1}', PodBandwidth()),
        (f'{{"egressLimit": {MAX_BITS}}}', PodBandwidth(egress=MAX_BITS)),
    ],
)
def test_a_pods_limits(text: str, found: PodBandwidth) -> None:
    assert parse(text) == found
    assert pod_bandwidth(Pod("a", "b", "c", annotations={ANNOTATION_NETWORK_QOS: text})) == found


def test_a_pod_without_the_annotation_has_none() -> None:
    assert pod_bandwidth(Pod("a", "b", "c")) == PodBandwidth()


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object"),
        ('{"egressLimit": true}', "Expected"),
        ('{"ingressLimit": "many"}', 'ingressLimit: "many" is not a valid quantity'),
        (f'{{"egressLimit": {MAX_BITS + 1}}}', "is out of range; expected 0 to 90071992547"),
    ],
)
def test_an_annotation_of_no_use_is_reported_in_one_line(text: str, reported: str) -> None:
    with pytest.raises(
        ValueError, match=r"^pod b/a: annotation koordinator\.sh/networkQOS: "
    ) as line:
        pod_bandwidth(Pod("a", "b", "c", annotations={ANNOTATION_NETWORK_QOS: text}))
    assert reported in str(line.value)
    assert "\n" not in str(line.value)


@pytest.mark.parametrize(
    ("bandwidth", "bits"),
    [
        (Bandwidth(), 0),
        (Bandwidth(percent=30), 300),
        (Bandwidth(percent=100), 1000),
        (Bandwidth(bits=1000), 1000),
    ],
)
def test_a_bandwidth_of_the_nodes(bandwidth: Bandwidth, bits: int) -> None:
    assert bits_of(bandwidth, 1000, "here") == bits


@pytest.mark.parametrize(
    ("bandwidth", "reported"),
    [
        (Bandwidth(percent=-1), "here: -1 percent; expected 0 to 100"),
        (Bandwidth(percent=101), "here: 101 percent; expected 0 to 100"),
        (
            Bandwidth(bits=1001),
            "here: 1001 bits a second is out of range; expected 0 to the node's",
        ),
        (Bandwidth(bits=-1), "here: -1 bits a second is out of range"),
    ],
)
def test_a_bandwidth_the_node_does_not_have(bandwidth: Bandwidth, reported: str) -> None:
    with pytest.raises(ValueError, match=reported):
        bits_of(bandwidth, 1000, "here")
