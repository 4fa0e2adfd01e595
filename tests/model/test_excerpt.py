from hypothesis import given
from hypothesis import strategies as st
from koord_model.excerpt import excerpt


def test_short_text_is_quoted() -> None:
    assert excerpt("500m") == '"500m"'


def test_long_text_is_cut() -> None:
    assert excerpt("x" * 1000) == f'"{"x" * 40}…"'


def test_control_characters_are_escaped() -> None:
    assert excerpt("a\nb\x1b") == r'"a\nb\x1b"'


@given(st.text())
def test_it_is_always_one_short_line(text: str) -> None:
    assert len(excerpt(text).splitlines()) == 1
    assert len(excerpt(text)) <= 450
