import msgspec
import pytest
from koord_model.annotations import decode, fields_of, read
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


def test_the_fields_of_an_object_are_read_one_by_one() -> None:
    ignored: list[str] = []
    fields = fields_of(Pod("web-1", "shop", "uid", annotations={"a": '{"b": 7}'}), "a", ignored)
    assert fields is not None
    assert fields.number("b", 0, 0, 5) == 0
    assert ignored == ["pod shop/web-1: annotation a: b is 7; expected 0 to 5 (default 0 kept)"]


@pytest.mark.parametrize(
    ("text", "lines"), [(None, 0), ("", 0), ("null", 0), ("[]", 1), ("{", 1), ("\x00", 1)]
)
def test_text_that_is_no_object_has_no_fields(text: str | None, lines: int) -> None:
    ignored: list[str] = []
    annotations = {} if text is None else {"a": text}
    assert fields_of(Pod("web-1", "shop", "uid", annotations=annotations), "a", ignored) is None
    assert len(ignored) == lines
    assert all(line.startswith("pod shop/web-1: annotation a: ") for line in ignored)
