"""Every decision that a test brings about is computed again from the numbers shown with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from koord_model.decision import Decision

from tests.support import formulas


@pytest.fixture(autouse=True)
def _formulas_lead_to_their_results(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: dict[str, Decision] = {}
    invented: set[str] = set()
    plain = Decision.__init__

    def init(self: Decision, *given: Any, **more: Any) -> None:
        plain(self, *given, **more)
        if not sys._getframe(1).f_globals["__name__"].startswith("koordlet."):
            invented.add(self.formula)  # a test's own, which evictions go on with
        elif self.formula not in invented and len(made) < 5000:
            made.setdefault(str(self), self)

    monkeypatch.setattr(Decision, "__init__", init)
    yield
    assert [line for one in made.values() for line in formulas.wrong(one)][:5] == []
