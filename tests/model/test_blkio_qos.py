import json
from dataclasses import asdict
from typing import Any

import pytest
from koord_model.blkio_qos import MOST_BLOCKS, BlkIOQoS, BlockQoS, BlockType, of_pod, read
from koord_model.fields import Fields
from koord_model.keys import ANNOTATION_BLKIO_QOS
from koord_model.pod import Pod

IO = {
    "readIOPS": 1,
    "writeIOPS": 2,
    "readBPS": 3,
    "writeBPS": 4,
    "ioWeightPercent": 5,
    "readLatency": 6,
    "writeLatency": 7,
    "readLatencyPercent": 8,
    "writeLatencyPercent": 9,
    "enableUserModel": True,
    "modelReadBPS": 10,
    "modelWriteBPS": 11,
    "modelReadSeqIOPS": 12,
    "modelWriteSeqIOPS": 13,
    "modelReadRandIOPS": 14,
    "modelWriteRandIOPS": 15,
}


def taken(given: object) -> tuple[BlkIOQoS, list[str]]:
    ignored: list[str] = []
    return read(Fields(given, "NodeSLO", ignored, "io")), ignored


def one(**block: Any) -> dict[str, Any]:
    return {"enable": True, "blocks": [block]}


def pod(annotation: str) -> Pod:
    return Pod("web", "shop", "1", annotations={ANNOTATION_BLKIO_QOS: annotation})


def test_everything_is_read() -> None:
    found, ignored = taken(one(name="pool", type="volumegroup", ioCfg=IO))
    [block] = found.blocks
    assert (found.enable, ignored) == (True, [])
    assert block == BlockQoS(
        "pool", BlockType.VOLUME_GROUP, 1, 2, 3, 4, 5, 6, 7, 8, 9, True, 10, 11, 12, 13, 14, 15
    )
    assert None not in asdict(block).values()


@pytest.mark.parametrize("kind", [{}, {"type": ""}, {"type": "device"}, {"ioCfg": None}])
def test_what_is_not_said_is_left_alone(kind: dict[str, Any]) -> None:
    assert taken(one(name="/dev/vda", **kind)) == (BlkIOQoS(True, (BlockQoS("/dev/vda"),)), [])


@pytest.mark.parametrize("off", [{}, {"enable": False}, {"enable": None}, {"enable": True}])
def test_nothing_is_asked_of_any_device_without_enable_or_blocks(off: dict[str, Any]) -> None:
    blocks = None if off.get("enable") else [{"name": "/dev/vda"}]
    found, ignored = taken({**off, "blocks": blocks})
    assert (found.blocks, ignored) == ((), [])


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        ({}, "io.blocks[0].name is missing; expected a name"),
        ({"name": ""}, 'io.blocks[0].name is ""; expected a name'),
        ({"name": 7}, "io.blocks[0].name is 7; expected a name"),
        ({"name": "a\nb"}, 'io.blocks[0].name is "a\\nb"; expected a name'),
        ({"name": "../../x"}, 'io.blocks[0].name is "../../x"; expected a name'),
        ({"name": "a", "type": "disk"}, 'io.blocks[0].type is "disk"; expected device or volumegr'),
        ("/dev/vda", 'io.blocks[0] is "/dev/vda"; expected an object'),
    ],
)
def test_a_block_whose_device_is_not_certain_is_left_out(bad: object, line: str) -> None:
    found, [told] = taken({"enable": True, "blocks": [bad, {"name": "/dev/vdb"}]})
    assert told.startswith(f"NodeSLO {line}")
    assert found.blocks == (BlockQoS("/dev/vdb"),)


@pytest.mark.parametrize(
    ("name", "bad", "expected"),
    [
        ("readIOPS", -1, "0 to 9223372036854775807 (left unset)"),
        ("writeBPS", "1G", "0 to 9223372036854775807 (left unset)"),
        ("ioWeightPercent", 0, "1 to 100 (left unset)"),
        ("ioWeightPercent", 101, "1 to 100 (left unset)"),
        ("readLatencyPercent", 101, "0 to 100 (left unset)"),
        ("modelReadBPS", 0, "1 to 9223372036854775807 (left unset)"),
        ("enableUserModel", 1, "true or false (left unset)"),
    ],
)
def test_a_bad_number_costs_only_itself(name: str, bad: Any, expected: str) -> None:
    found, [line] = taken(one(name="/dev/vda", ioCfg={name: bad, "writeIOPS": 9}))
    assert line.startswith(f"NodeSLO io.blocks[0].ioCfg.{name} is ")
    assert line.endswith(f"; expected {expected}")
    assert found.blocks == (BlockQoS("/dev/vda", write_iops=9),)


class TestPods:
    @pytest.mark.parametrize("annotations", [{}, {ANNOTATION_BLKIO_QOS: ""}])
    def test_ask_for_nothing_without_an_annotation(self, annotations: dict[str, str]) -> None:
        assert of_pod(Pod("web", "shop", "1", annotations=annotations)) == (BlkIOQoS(), ())

    def test_ask_for_devices_of_theirs_without_having_to_enable_it(self) -> None:
        block = {"name": "data", "type": "podvolume", "ioCfg": {"readBPS": 1024}}
        assert of_pod(pod(json.dumps({"blocks": [block]}))) == (
            BlkIOQoS(True, (BlockQoS("data", BlockType.POD_VOLUME, read_bps=1024),)),
            (),
        )

    @pytest.mark.parametrize("text", ["{", "[]", "7", '{"blocks": 1'])
    def test_ask_for_nothing_where_the_annotation_is_no_object(self, text: str) -> None:
        found, [line] = of_pod(pod(text))
        assert found == BlkIOQoS()
        assert line.startswith("pod shop/web: annotation koordinator.sh/blkioQOS: ")
        assert line.endswith(" (ignored)")

    def test_are_told_of_what_is_bad(self) -> None:
        found, [line] = of_pod(pod('{"blocks": {"name": "a"}}'))
        assert found == BlkIOQoS(enable=True)
        assert line == (
            "pod shop/web: annotation koordinator.sh/blkioQOS: blocks is an object; "
            "expected a list (left out)"
        )

    @pytest.mark.parametrize("block", [{}, 7, {"name": 7}])
    def test_have_only_so_many_devices_read(self, block: object) -> None:
        blocks = [{"name": "/dev/vda"}, *[block] * 50_000]
        found, ignored = of_pod(pod(json.dumps({"blocks": blocks})))
        assert [one.name for one in found.blocks] == ["/dev/vda"]
        assert len(ignored) == MOST_BLOCKS
        assert ignored[0].endswith("blocks is a list; expected 64 or fewer (the rest left out)")
