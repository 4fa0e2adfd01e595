"""The web page in a real browser: what is in it, and what it makes of nasty names.

To see it: ``python -m tools.screenshots``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from koord_service.status import StatusServer
from koordlet.http_api.documents.node import DocumentSources
from koordlet.http_api.routes import pages
from koordlet.qos_manager.core.strategy import Decision, StrategyMode, Term
from koordlet.states_informer.state.informer_age import InformerAge

from tests.support.browser import PHONE, Dom, needs_chromium, visit
from tests.support.decided import DecidedNode, busy_decisions
from tests.support.observed import PODS, ObservedNode, busy_node, renamed

pytestmark = needs_chromium

Shown = Callable[..., "NodePage"]
_NASTY = "<img src=x onerror=alert(1)>\"'&<script>alert(2)</script>"

# What a person does, in the page's own language.
_CLICKS = """(async () => {
const headers = () => [...document.querySelectorAll("#pods th button")];
document.querySelector("tr.pod").click();
headers().find((one) => one.textContent === "Memory").click();
document.getElementById("theme").click();
const filter = document.getElementById("filter");
filter.value = "be";
filter.dispatchEvent(new Event("input"));
const plot = document.querySelector("#cpu .plot"), box = plot.getBoundingClientRect();
plot.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width * 0.7 }));
for (const name of ["cpu_suppress", "cpu_burst"]) {
  [...document.querySelectorAll("tr.fold")].find((one) => one.textContent.includes(name))?.click();
}
const inside = () => [...document.querySelectorAll("td.inside")];
const unanswered = () => inside().some((one) => one.textContent === "…");
while (unanswered()) await new Promise(requestAnimationFrame);
})()"""


class NodePage(Dom):
    """A node's page."""

    def theme(self) -> str | None:
        return next(attributes for tag, attributes in self.tags if tag == "html")["data-theme"]

    def pods(self) -> list[str]:
        """The first cell of each pod's row."""
        unfolding = [row for row in self.rows if row and row[0][:1] in ("▸", "▾")]
        return [row[0].lstrip("▸▾") for row in unfolding if "/" in row[0]]


@pytest.fixture
def shown() -> Iterator[Shown]:
    """Serve a node's pages, load one, and give what became of it."""
    servers: list[StatusServer] = []

    def show(node: ObservedNode, decided: DecidedNode | None = None, **more: Any) -> NodePage:
        served = pages(node.observed(), decided.decided() if decided else None)
        server = StatusServer("127.0.0.1:0", served)
        server.start()
        servers.append(server)
        return NodePage(visit(f"http://{server.address}/", **more))

    yield show
    for server in servers:
        server.stop()


def test_a_busy_node(shown: Shown) -> None:
    page = shown(busy_node())
    assert page.theme() == "light"
    assert page.by_id("node") is not None
    assert "node-1" in page.text
    assert page.by_id("health")["class"] == "badge degraded"
    assert page.by_id("health")["title"].splitlines() == [
        "NodeSLO: API server: connection refused",
        "report Device: devices: 403 Forbidden",
    ]
    assert len(page.pods()) == len(PODS)
    assert page.pods()[0] == "shop/orders-db-0", "the greediest first"
    [row] = [row for row in page.rows if row and row[0].endswith("spark-exec-17")]
    assert row[1] == "BE"
    assert row[2].endswith("/ 3")
    assert row[3].endswith("/ 4.0 GiB")
    # One area each, none cut in pieces though steps are as long as the time between looks.
    assert len(page.with_class("area")) == 14
    assert len(page.with_class("stroke")) == 3
    assert len(page.with_class("peak")) == 2
    assert page.by_id("problem").get("hidden") == ""
    assert "no kidled here" in page.text


@pytest.mark.parametrize(("dark", "width"), [(False, PHONE), (True, 800)])
def test_everybody_can_read_it_on_every_screen(shown: Shown, dark: bool, width: int) -> None:
    look: Any = {"dark": dark, "width": width, "judged": True}
    page = shown(busy_node(), busy_decisions(), script=_CLICKS, **look)
    assert page.theme() == ("light" if dark else "dark"), "the button was clicked"


def test_sorting_filtering_unfolding_and_the_theme(shown: Shown) -> None:
    page = shown(busy_node(), script=_CLICKS, decided=busy_decisions())
    assert page.theme() == "dark"
    # "be" is in BE, and in no name.
    assert page.pods() == ["ml/train-resnet-5", "batch/spark-exec-17", "batch/spark-exec-18"]
    assert [one for _, one in page.tags if one.get("aria-sort") == "descending"]
    [tip] = page.with_class("tip")[:1]
    assert "hidden" not in tip
    assert "left" in (tip.get("style") or "")
    assert len(page.with_class("decision")) == 3, "one of suppression, two of burst"
    for words in (
        "capacity × threshold − used by others",
        "used by others5.9 cores",
        "about kubepods/besteffort, for 30 s",
        "best-effort pods get 5 CPUs",
    ):
        assert words in page.text


def strategies(page: NodePage) -> dict[str, list[str]]:
    """The rows of the strategies, by name."""
    rows = [row for row in page.rows if len(row) == 7 and row[0][:1] in ("▸", "▾")]
    return {row[0][1:]: row[1:] for row in rows}


def test_strategies_with_mode_and_latest_outcome_and_evictions(shown: Shown) -> None:
    page = shown(busy_node(), decided=busy_decisions())
    found = strategies(page)
    assert found["cpu_suppress"][:2] == ["on", "best-effort pods get 4 CPUs"]
    assert found["cpu_suppress"][3:] == ["60", "0", "2.1 ms"]
    assert found["cpu_burst"][0] == "shadow"
    assert found["cpu_burst"][1].endswith(" and 1 more")
    assert found["cpu_burst"][4] == "1", "it took too long once"
    assert found["memory_evict"][1:3] == ["nothing decided", "–"]
    assert found["blkio"][:2] == ["off", "its gate BlkIOReconcile is off"]
    assert "3 of 4 strategies decide" in page.text
    assert not page.with_class("decision")
    [row] = [row for row in page.rows if "batch/spark-exec-9" in row]
    assert row[2:4] == ["memory_evict", "evicted: memory is short"]
    assert row[4].startswith("used − lower: used 60 GiB, lower 56 GiB")


def test_more_decisions_than_a_page_has_room_for(shown: Shown) -> None:
    node = busy_decisions()
    many = [
        ("cpu_burst", StrategyMode.ON, Decision("o", pod=f"n/{number}")) for number in range(40)
    ]
    node.decisions.keep(busy_node(0).now, many)
    page = shown(busy_node(), script=_CLICKS, decided=node)
    assert len(page.with_class("decision")) == 30
    assert "10 more: koordctl why pod NAME" in page.text
    assert "Nothing stands decided." in page.text, "suppression is over"


def test_a_node_of_which_nothing_is_known_and_a_koordlet_that_decides_nothing(
    shown: Shown,
) -> None:
    page = shown(ObservedNode())
    assert page.text.count("Nothing measured in this time yet.") == 2
    assert "Pressure is not measured here" in page.text
    assert "No pods run here" in page.text
    assert page.by_id("health")["class"] == "badge ok"
    assert "koordlet decides nothing on this node" in page.text
    assert strategies(page) == {}
    assert "hidden" in page.by_id("evicting")
    assert page.by_id("problem").get("hidden") == ""
    page = shown(ObservedNode(), decided=DecidedNode())
    assert "none since koordlet started" in page.text


def test_names_and_decisions_are_text_and_nothing_else(shown: Shown) -> None:
    node = busy_node(60)
    node.pods = (renamed(node.pods[0], _NASTY), *node.pods[1:])
    node.ages = {_NASTY: InformerAge(None, _NASTY)}
    decided = busy_decisions()
    given = (Term(_NASTY, _NASTY, ""),)
    nasty = Decision(_NASTY, _NASTY, given, pod=_NASTY, aspect=_NASTY)
    gone = Decision(_NASTY, "", (), pod=_NASTY, aspect="evicted")
    decided.decisions.keep(
        node.now, [("cpu_suppress", StrategyMode.ON, one) for one in (nasty, gone)]
    )
    plain = shown(node)
    assert plain.text.count(_NASTY) == 3
    assert [one["src"] for tag, one in plain.tags if tag == "script"] == ["app.js"]
    clicked = shown(node, script=_CLICKS, decided=decided)
    assert clicked.text.count(_NASTY) >= 8
    for page in (plain, clicked):
        assert not [tag for tag, _ in page.tags if tag == "img"]
        assert not [one for _, one in page.tags if any(key.startswith("on") for key in one)]


def test_koordlet_that_cannot_answer(shown: Shown) -> None:
    page = shown(_Broken())
    assert "hidden" not in page.by_id("problem")
    assert "No news from koordlet since" in page.text
    assert "RuntimeError: no list" in page.text


class _Broken(ObservedNode):
    def observed(self) -> DocumentSources:
        return replace(super().observed(), pods=self._fail)

    @staticmethod
    def _fail() -> NoReturn:
        raise RuntimeError("no list")
