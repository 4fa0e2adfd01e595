"""Pages in Chinese: the search, and lines that are broken between characters.

Chinese has no spaces. Pairs of neighbours find every word of two characters and more, without a
dictionary, and the page's script makes the same pairs of what a reader types.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish
from sphinx.transforms import SphinxTransform

_WORD = re.compile(r"[\u4e00-\u9fff]+|[^\W\u4e00-\u9fff]+")
_CHARACTER = re.compile("[\u4e00-\u9fff]")
_PUNCTUATION = re.compile("[\u3000-\u303f\uff00-\uffef]")


class SearchEnglishChinese(SearchEnglish):
    """Splits texts in both languages."""

    lang = "english-chinese"
    js_splitter_code = """
function splitQuery(query) {
  const words = query.match(/[\\u4e00-\\u9fff]+|[^\\s\\p{P}\\p{S}\\u4e00-\\u9fff]+/gu) || [];
  return words.flatMap((word) => /^[\\u4e00-\\u9fff]{3,}$/.test(word)
    ? Array.from(word).slice(1).map((end, index) => word[index] + end) : [word]);
}
"""

    def split(self, input: str) -> list[str]:  # noqa: A002 - Sphinx' name
        """Return the words of a text, with pairs in place of words in Chinese."""
        return [part for word in _WORD.findall(input) for part in pairs(word)]


def pairs(word: str) -> list[str]:
    """Return pairs of neighbours of a word in Chinese; any other word, and a pair, as it is."""
    if len(word) < 3 or not "\u4e00" <= word[0] <= "\u9fff":
        return [word]
    return [first + second for first, second in pairwise(word)]


class JoinLines(SphinxTransform):
    """Joins lines that were broken between Chinese characters, where browsers show a space."""

    default_priority = 5

    def apply(self, **_kwargs: Any) -> None:
        """Remove such breaks from all paragraphs."""
        for parent in self.document.findall(nodes.TextElement):
            parts = list(parent.children)
            inner = zip(parts, parts[1:], parts[2:], strict=False)
            for before, text, after in inner:
                is_break = isinstance(text, nodes.Text) and text.astext() == "\n"
                if is_break and no_space(before.astext()[-1:], after.astext()[:1]):
                    parent.children = [child for child in parent.children if child is not text]


def no_space(before: str, after: str) -> bool:
    """True if no space belongs between two characters: two Chinese ones, or beside punctuation."""
    if _PUNCTUATION.match(before) or _PUNCTUATION.match(after):
        return True
    return bool(_CHARACTER.match(before) and _CHARACTER.match(after))


def register(app: Sphinx) -> None:
    """Make both known."""
    app.add_search_language(SearchEnglishChinese)
    app.add_transform(JoinLines)
