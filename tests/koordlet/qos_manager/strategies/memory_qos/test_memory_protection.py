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


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (MemoryProtection(), "nothing"),
        (MemoryProtection(GIB), "1 GiB"),
        (MemoryProtection(0, GIB), "0 B (if possible 1 GiB)"),
        (MemoryProtection(GIB, 2 * GIB), "1 GiB (if possible 2 GiB)"),
    ],
)
def test_protection_in_words(one: MemoryProtection, words: str) -> None:
    assert str(one) == words


SIZES = MemorySizes(GIB, 3 * GIB, 64 * GIB)


class TestHeldBack:
    @pytest.mark.parametrize(
        ("sizes", "throttling", "expected"),
        [
            (SIZES, 0, None),
            (SIZES, 50, 2 * GIB),
            (SIZES, 100, 3 * GIB),
            (MemorySizes(GIB, 0, 65 * GIB), 50, 33 * GIB),  # without a limit the node's memory
            (MemorySizes(0, 0, None), 50, None),  # which is not known
            (MemorySizes(4 * GIB, 0, 2 * GIB), 50, 4 * GIB),  # a request larger than that
            (MemorySizes(0, 100 * PAGE + 1, None), 33, 33 * PAGE),
            (MemorySizes(0, 10 * PAGE, None), 1, PAGE),  # never at nothing
        ],
    )
    def test_between_request_and_limit(
        self, sizes: MemorySizes, throttling: int, expected: int | None
    ) -> None:
        assert at(sizes, throttling=throttling) == expected

    def test_never_below_what_is_protected(self) -> None:
        assert at(MemorySizes(0, GIB, None), 800 * MIB, throttling=10) == 800 * MIB
        assert at(MemorySizes(0, GIB, None), GIB, instead=True, wmark_ratio=50) == GIB

    def test_says_what_is_missing(self) -> None:
        held = held_back(MemorySizes(0, 0, None), 0, MemoryQoS(throttling=50))
        assert held is not None
        assert held.size is None
        assert ("limit (the node's)", None, "bytes") in held.given

    @pytest.mark.parametrize(
        ("sizes", "throttling", "ratio", "expected"),
        [
            (SIZES, 0, 50, GIB * 3 // 2),
            (SIZES, 0, 0, None),
            (SIZES, 100, 50, GIB * 3 // 2),
            (SIZES, 50, 95, 2 * GIB),  # throttling gives a lower one
            (MemorySizes(GIB, 0, 64 * GIB), 0, 95, None),  # a watermark is of a limit
            (MemorySizes(GIB, 0, None), 50, 95, None),
        ],
    )
    def test_at_the_watermark_where_that_is_wanted(
        self, sizes: MemorySizes, throttling: int, ratio: int, expected: int | None
    ) -> None:
        found = at(sizes, instead=True, throttling=throttling, wmark_ratio=ratio)
        assert found == (None if expected is None else expected // PAGE * PAGE)

    def test_not_at_the_watermark_otherwise(self) -> None:
        assert at(SIZES, wmark_ratio=95) is None

    @given(
        st.integers(0, 1 << 45),
        st.integers(0, 1 << 45),
        st.integers(0, 100),
        st.integers(0, 100),
        st.integers(1, 100),
    )
    def test_is_above_all_that_is_protected_and_at_most_the_limit(
        self, request: int, limit: int, least: int, throttling: int, ratio: int
    ) -> None:
        request = min(request, limit)
        asked = MemoryQoS(min_limit=least, throttling=throttling, wmark_ratio=ratio)
        kept = protection(request, asked).least
        held = held_back(MemorySizes(request, limit, None), kept, asked, instead=True)
        if held is not None and held.size is not None:
            assert kept <= held.size <= max(limit, PAGE)


class TestPageCache:
    @pytest.mark.parametrize(
        ("asked", "limit", "expected"),
        [
            (MemoryQoS(), GIB, PageCacheLimit()),
            (MemoryQoS(page_cache_limit_size=MIB), GIB, PageCacheLimit(1, MIB, 0)),
            (MemoryQoS(page_cache_limit_size=2 * GIB), GIB, PageCacheLimit(1, GIB, 0)),
            (MemoryQoS(page_cache_limit_size=2 * GIB), 0, PageCacheLimit(1, 2 * GIB, 0)),
            (MemoryQoS(page_cache_limit_size=0), GIB, PageCacheLimit(0, 0)),
            (MemoryQoS(page_cache_limit_percent=50), GIB, PageCacheLimit(1, GIB // 2, 0)),
            (MemoryQoS(page_cache_limit_percent=50), 0, PageCacheLimit()),
            (MemoryQoS(page_cache_limit_percent=0), GIB, PageCacheLimit(0, 0)),
            (
                MemoryQoS(page_cache_limit_percent=50, page_cache_limit_size=MIB),
                GIB,
                PageCacheLimit(1, MIB, 0),
            ),
            (
                MemoryQoS(page_cache_limit_size=MIB, page_cache_reclaim_sync=True),
                GIB,
                PageCacheLimit(1, MIB, 1),
            ),
            (
                MemoryQoS(page_cache_limit_size=MIB, page_cache_enable=False),
                GIB,
                PageCacheLimit(0, MIB, 0),
            ),
            (MemoryQoS(page_cache_enable=True), GIB, PageCacheLimit(1)),
        ],
    )
    def test_is_limited_in_bytes_or_percent_of_the_limit(
        self, asked: MemoryQoS, limit: int, expected: PageCacheLimit
    ) -> None:
        assert page_cache(limit, asked) == expected
