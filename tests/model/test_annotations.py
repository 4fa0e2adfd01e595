import msgspec
import pytest
from koord_model.annotations import decode, read
from koord_model.pod import Pod

POD = Pod("web-1", "shop", "uid", annotations={"a/b": "7", "a/c": "x"})
NUMBERS = msgspec.json.Decoder(dict[str, int])


def test_an_absent_annotation_is_none() -> None:
    assert read(POD, "a/z", int) is None


def test_a_present_one_is_parsed() -> None:
    assert read(POD, "a/b", int) == 7


def test_the_error_names_pod_and_key() -> None:
    with pytest.raises(ValueError, match=r"^pod shop/web-1: annotation a/c: invalid literal"):
        read(POD, "a/c", int)


def test_json_is_decoded() -> None:
    assert decode(NUMBERS, '{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    "text", ["", "{", '{"a": "x"}', '{"a": 1e999}', "\ud800", '{"a":' + "[" * 100_000, "null"]
)
def test_whatever_is_wrong_is_one_line_of_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        decode(NUMBERS, text)
