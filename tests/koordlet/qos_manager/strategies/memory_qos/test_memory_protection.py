import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.keys import BATCH_MEMORY, MEMORY
from koord_model.memory_qos import MemoryQoS
from koord_model.qos import QoSClass
from koordlet.qos_manager.strategies.memory_qos.memory_protection import (
    PAGE,
    MemoryProtection,
    MemorySizes,
    PageCacheLimit,
    amount,
    held_back,
    larger,
    page_cache,
    protection,
    together,
)

MIB = 1 << 20
GIB = 1 << 30


def at(sizes: MemorySizes, least: int = 0, *, instead: bool = False, **asked: int) -> int | None:
    held = held_back(sizes, least, MemoryQoS(**asked), instead=instead)
    return held.size if held else None


@pytest.mark.parametrize(
    ("percents", "expected"),
    [
        ((0, 0), (0, 0)),
        ((50, 0), (GIB, 0)),
        ((0, 80), (0, 2 * GIB * 80 // 100)),
        ((100, 50), (2 * GIB, 2 * GIB)),  # memory.low below memory.min would do nothing
        ((10, 50), (2 * GIB // 10, GIB)),
    ],
)
def test_protection_is_a_part_of_the_request(
    percents: tuple[int, int], expected: tuple[int, int]
) -> None:
    least, low = percents
    assert protection(2 * GIB, MemoryQoS(min_limit=least, low_limit=low)) == expected


def test_best_effort_pods_request_batch_memory_and_nothing_else_counts() -> None:
    amounts = {MEMORY: 5, BATCH_MEMORY: 7}
    assert amount(amounts, QoSClass.BE) == 7
    assert amount(amounts, QoSClass.LS) == amount(amounts, QoSClass.NONE) == 5
    assert amount({MEMORY: 5}, QoSClass.BE) == amount({}, QoSClass.LS) == 0


def test_a_group_above_needs_the_sum() -> None:
    assert together([MemoryProtection(1, 2), MemoryProtection(3, 4)]) == (4, 6)
    assert together([]) == (0, 0)
    assert larger(MemoryProtection(1, 5), MemoryProtection(3, 4)) == (3, 5)


SIZES = MemorySizes(GIB, 3 * GIB, 64 * GIB)
SIZE = st.integers(0, 1 << 45)


@pytest.mark.parametrize(
    ("sizes", "least", "asked", "expected"),
    [
        # Between request and limit, or the memory of the node, if that is known and larger.
        (SIZES, 0, (0, 0), None),
        (SIZES, 0, (50, 0), 2 * GIB),
        (SIZES, 0, (100, 0), 3 * GIB),
        (MemorySizes(GIB, 0, 65 * GIB), 0, (50, 0), 33 * GIB),
        (MemorySizes(0, 0, None), 0, (50, 0), None),
        (MemorySizes(4 * GIB, 0, 2 * GIB), 0, (50, 0), 4 * GIB),
        # In pages, never at nothing and never below what is protected.
        (MemorySizes(0, 100 * PAGE + 1, None), 0, (33, 0), 33 * PAGE),
        (MemorySizes(0, 10 * PAGE, None), 0, (1, 0), PAGE),
        (MemorySizes(0, GIB, None), 800 * MIB, (10, 0), 800 * MIB),
        (MemorySizes(0, GIB, None), GIB, (0, 50), GIB),
        # At the watermark of a limit, if throttling gives no lower one.
        (SIZES, 0, (0, 50), GIB * 3 // 2),
        (SIZES, 0, (100, 50), GIB * 3 // 2),
        (SIZES, 0, (50, 95), 2 * GIB),
        (SIZES, 0, (0, 95), 3 * GIB * 95 // 100 // PAGE * PAGE),
        (MemorySizes(GIB, 0, 64 * GIB), 0, (0, 95), None),
        (MemorySizes(GIB, 0, None), 0, (50, 95), None),
    ],
)
def test_held_back(
    sizes: MemorySizes, least: int, asked: tuple[int, int], expected: int | None
) -> None:
    throttling, ratio = asked
    assert at(sizes, least, instead=True, throttling=throttling, wmark_ratio=ratio) == expected
    if ratio:
        plain = at(sizes, least, throttling=throttling)
        assert plain == at(sizes, least, throttling=throttling, wmark_ratio=ratio)


@given(SIZE, SIZE, st.integers(0, 100), st.integers(0, 100), st.integers(1, 100))
def test_held_back_above_all_that_is_protected_and_at_most_at_the_limit(
    request: int, limit: int, least: int, throttling: int, ratio: int
) -> None:
    request = min(request, limit)
    asked = MemoryQoS(min_limit=least, throttling=throttling, wmark_ratio=ratio)
    kept = protection(request, asked).least
    held = held_back(MemorySizes(request, limit, None), kept, asked, instead=True)
    if held is not None and held.size is not None:
        assert kept <= held.size <= max(limit, PAGE)


LIMIT_MIB = {"page_cache_limit_size": MIB}


@pytest.mark.parametrize(
    ("asked", "limit", "expected"),
    [
        ({}, GIB, PageCacheLimit()),
        (LIMIT_MIB, GIB, PageCacheLimit(1, MIB, 0)),
        ({"page_cache_limit_size": 2 * GIB}, GIB, PageCacheLimit(1, GIB, 0)),
        ({"page_cache_limit_size": 2 * GIB}, 0, PageCacheLimit(1, 2 * GIB, 0)),
        ({"page_cache_limit_size": 0}, GIB, PageCacheLimit(0, 0)),
        ({"page_cache_limit_percent": 50}, GIB, PageCacheLimit(1, GIB // 2, 0)),
        ({"page_cache_limit_percent": 50}, 0, PageCacheLimit()),
        ({"page_cache_limit_percent": 0}, GIB, PageCacheLimit(0, 0)),
        (LIMIT_MIB | {"page_cache_limit_percent": 50}, GIB, PageCacheLimit(1, MIB, 0)),
        (LIMIT_MIB | {"page_cache_reclaim_sync": True}, GIB, PageCacheLimit(1, MIB, 1)),
        (LIMIT_MIB | {"page_cache_enable": False}, GIB, PageCacheLimit(0, MIB, 0)),
        ({"page_cache_enable": True}, GIB, PageCacheLimit(1)),
    ],
)
def test_page_cache_is_limited_in_bytes_or_percent_of_the_limit(
    asked: dict[str, int], limit: int, expected: PageCacheLimit
) -> None:
    assert page_cache(limit, MemoryQoS(**asked)) == expected  # type: ignore[arg-type]
