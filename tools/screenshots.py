"""Take the pictures of web pages in the docs: ``make screenshots``.

The pages are those of the tests, in the system's Chromium; Pillow leaves 128 colours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from koord_service.status import MakePage, StatusServer
from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from koord_scheduler.program.pages import SchedulerPageSources  # noqa: E402
from koord_scheduler.program.pages import pages as scheduler_pages  # noqa: E402
from koordlet.http_api.routes import pages as koordlet_pages  # noqa: E402

from tests.scheduler.program.test_web import busy_overview  # noqa: E402
from tests.support import busy_cluster, busy_neighbours  # noqa: E402
from tests.support.browser import visit  # noqa: E402
from tests.support.decided import busy_decisions  # noqa: E402
from tests.support.observed import busy_node  # noqa: E402

PICTURES = ROOT / "docs/images"
MOST_BYTES = 150_000
_COLOURS = 128
_WIDE: Mapping[str, Any] = {"width": 1400, "height": 1250}
_PHONE: Mapping[str, Any] = {"width": 390, "height": 1250, "dark": True}
_CHOSEN = """
const map = document.querySelector(".map");
for (const key of ["End", "ArrowUp", "ArrowUp"]) {
  map?.dispatchEvent(new KeyboardEvent("keydown", { key }));
}
"""
"""A node of the heat map is chosen, so that its numbers show."""
_BELOW = 'document.querySelector("#quota").scrollIntoView();'


@contextmanager
def _served(shown: Mapping[str, MakePage]) -> Iterator[str]:
    server = StatusServer("127.0.0.1:0", shown)
    server.start()
    try:
        yield f"http://{server.address}/"
    finally:
        server.stop()


@contextmanager
def koordlet() -> Iterator[str]:
    """A node with pods of all classes."""
    with _served(koordlet_pages(busy_node().observed(), busy_decisions().decided())) as url:
        yield url


@contextmanager
def scheduler() -> Iterator[str]:
    """A scheduler for which thousands of pods wait."""
    overview = busy_overview()
    sources = SchedulerPageSources(dict, lambda: overview, lambda _: {}, dict, dict)
    with _served(scheduler_pages(sources)) as url:
        yield url


@contextmanager
def cluster() -> Iterator[str]:
    """A cluster of 10,000 nodes."""
    neighbours = busy_neighbours.scheduler_pages(), busy_neighbours.descheduler_pages()
    leader = busy_cluster.standing()
    with busy_cluster.served_cluster(busy_cluster.busy_summary(10_000), leader, *neighbours) as url:
        yield url


def main() -> None:
    """Write all pictures."""
    PICTURES.mkdir(exist_ok=True)
    for program, looks in _pictures().items():
        with program() as url:
            for suffix, look in looks.items():
                picture = PICTURES / f"{program.__name__}{suffix}.png"
                visit(url, picture=picture, **look)
                _shrink(picture)


def _pictures() -> Mapping[Callable[[], Any], Mapping[str, Mapping[str, Any]]]:
    """Looks at each page, by what the picture's name has after the program's."""
    script = {"script": f"{{{_CHOSEN}}}"}
    return {
        koordlet: {"": _WIDE, "-phone": _PHONE},
        scheduler: {"": {**_WIDE, "dark": True}, "-phone": _PHONE},
        cluster: {
            "": {**_WIDE, **script},
            "-dark": {**_WIDE, **script, "dark": True},
            "-below": {**_WIDE, "script": _BELOW},
            "-phone": {**_PHONE, **script},
        },
    }


def _shrink(picture: Path) -> None:
    with Image.open(picture) as image:
        few = image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(picture, optimize=True)
    size = picture.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"{picture} has {size} bytes; expected at most {MOST_BYTES}")


if __name__ == "__main__":
    main()
