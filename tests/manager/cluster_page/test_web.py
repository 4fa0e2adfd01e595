"""The page in a real browser: of a large cluster, of a manager that does not lead, in an outage.

To see it: ``python -m tools.screenshots``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.browser import PHONE, Dom, needs_chromium, visit
from tests.support.busy_cluster import busy_summary, served_cluster, standing

pytestmark = needs_chromium

_NASTY = "<img src=x onerror=alert(1)>\"'&<script>alert(2)</script>"
_KEYS = """
const map = document.querySelector(".map");
const press = (key) => map.dispatchEvent(new KeyboardEvent("keydown", { key }));
const buttons = [...document.querySelectorAll(".choice button")].map((one) => one.textContent);
const click = (name) => document.querySelectorAll(".choice button")[buttons.indexOf(name)].click();
"""


@pytest.fixture(scope="module")
def neighbours() -> tuple[dict[str, Any], dict[str, Any]]:
    # With the driver of the browser, the libraries of all programs are here, too.
    from tests.support.busy_neighbours import descheduler_pages, scheduler_pages

    return scheduler_pages(), descheduler_pages()


@pytest.mark.parametrize(("dark", "width"), [(False, PHONE), (True, 800)])
def test_everybody_can_read_it_on_every_screen(neighbours: Any, dark: bool, width: int) -> None:
    with served_cluster(busy_summary(10_000), standing(), *neighbours) as url:
        page = Dom(visit(url, dark=dark, width=width, judged=True))
    assert page.by_id("role")["class"] == "badge ok"
    assert "10,000" in page.text
    assert len([row for row in page.rows if row and row[0].startswith("batch-0")]) == 10
    [vision] = [row for row in page.rows if row[:2] == ["vision", "cpu"]]
    assert vision[2:] == ["270", "300", "600", "1000", "300", "–"]
    assert "0/600 nodes are available" in page.text
    assert "no budget permits it" in page.text
    assert "cool-down 2" in page.text
    assert "By koordlets since these started: 31, most on web-00413 9, web-02077 4." in page.text
    assert "By the manager, off unhealthy nodes: evicted 12." in page.text
    assert "paused by koord-manager: evictions an hour" in page.text


def test_nodes_are_chosen_by_keys_and_measured_by_buttons(neighbours: Any) -> None:
    keys = f'{{{_KEYS} click("Devices"); click("By value"); press("Home"); press("ArrowRight");}}'
    with served_cluster(busy_summary(300), standing(), *neighbours) as url:
        page = Dom(visit(url, script=keys))
    [slider] = page.with_class("map")
    assert (slider["aria-valuenow"], slider["aria-valuemax"]) == ("1", "299")
    assert str(slider["aria-valuetext"]).startswith("gpu-00009, CPU ")
    assert str(slider["aria-valuetext"]).endswith("Devices 75 %")
    assert [row[-1] for row in page.rows if row[0].startswith("gpu-000")][:2] == ["100 %", "75 %"]
    assert "not known 298" in page.text


def test_names_are_text(neighbours: Any) -> None:
    known = busy_summary(10)
    usage, [quota, *_] = known.usage, known.quotas.values()
    assert usage is not None
    nasty = replace(
        known,
        usage=replace(usage, names=[_NASTY, *usage.names[1:]]),
        quotas={_NASTY: replace(quota, name=_NASTY)},
        rollouts=[{**(known.rollouts or [{}])[0], "entry": _NASTY, "problem": _NASTY}],
    )
    overview = {**neighbours[1]["/v1/overview"], "obstacle": _NASTY}
    who = standing(problems=[_NASTY])
    with served_cluster(nasty, who, None, {"/v1/overview": overview}) as url:
        page = Dom(visit(url, script=f'{{{_KEYS} press("Home");}}'))
    assert page.text.count(_NASTY) == 7
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert [one["src"] for tag, one in page.tags if tag == "script"] == ["app.js"]


def test_an_outage_of_neighbours_costs_only_what_they_know() -> None:
    with served_cluster(busy_summary(50), standing(), None) as url:
        page = Dom(visit(url, judged=True))
    assert "Connection refused" in page.text
    assert "--descheduler-address is not set" in page.text
    assert page.by_id("problem").get("hidden") == ""
    assert len([row for row in page.rows if row and row[0].startswith(("web-", "batch-"))]) == 10


def test_a_manager_that_does_not_lead_shows_the_way() -> None:
    who = standing(
        identity="koord-manager-5d8c7b-9qq2z_55", leads=False, leader_address="10.1.2.3:8080"
    )
    with served_cluster(None, who) as url:
        page = Dom(visit(url, judged=True))
    assert "koord-manager-5d8c7b-x2x9k leads" in page.text
    [link] = [one["href"] for tag, one in page.tags if tag == "a"]
    assert link == "http://10.1.2.3:8080/"
    assert "hidden" in page.by_id("nodes")
