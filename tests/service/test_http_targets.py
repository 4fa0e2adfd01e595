from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_service.http_targets import path_segment, with_query

URL_TEXT = st.text(alphabet=st.sampled_from("ab./%?#;:&= \n\x00é\ud800")) | st.text()


def _is_text(given: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in given)


@given(URL_TEXT)
def test_a_segment_stays_one_and_is_what_it_was(text: str) -> None:
    if text in ("", ".", "..") or set(text) & {"/", "%"} or not _is_text(text):
        with pytest.raises(ValueError, match=r"^name is ") as found:
            path_segment("name", text)
        assert str(found.value).isprintable()
        return
    segment = path_segment("name", text)
    parts = urlsplit(f"https://host/a/{segment}/z")
    assert (parts.path, parts.query, parts.fragment) == (f"/a/{segment}/z", "", "")
    assert segment.isascii()
    assert segment.isprintable()
    assert unquote(segment) == text


@pytest.mark.parametrize("name", ["system:node", "node-1.example.com", "http:pod-1:8080", "a_b"])
def test_usual_names_are_sent_as_they_are(name: str) -> None:
    assert path_segment("name", name) == name


WORDS = st.text(min_size=1).filter(_is_text)


@given(st.dictionaries(WORDS, WORDS))
def test_a_query_is_what_it_was(query: dict[str, str]) -> None:
    target = with_query("/page", query)
    assert target.isascii()
    assert dict(parse_qsl(urlsplit(f"https://host{target}").query)) == query
