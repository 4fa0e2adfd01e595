from hypothesis import given
from hypothesis import strategies as st
from koord_model.excerpt import excerpt


@given(st.text())
def test_it_is_always_one_short_line(text: str) -> None:
    assert len(excerpt(text).splitlines()) == 1
    assert len(excerpt(text)) <= 450


def test_long_text_is_cut_and_control_characters_are_escaped() -> None:
    assert excerpt("x" * 1000) == f'"{"x" * 40}…"'
    assert excerpt("a\nb\x1b") == r'"a\nb\x1b"'
