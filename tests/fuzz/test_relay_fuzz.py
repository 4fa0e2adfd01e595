"""The fuzz target without a fuzzer: seeds, their mutations, and noise, always the same."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.fuzz.corpus import DICTIONARY, SEEDS, seeds
from tests.fuzz.relay_target import relays_verbatim, run, small_limits
from tests.support.frames import PREFACE, ClientFrames, ServerFrames


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    with small_limits():
        yield


def mutated(source: random.Random, script: bytes, others: list[bytes]) -> bytes:
    """A few of the changes that a fuzzer makes."""
    changed = bytearray(script)
    for _ in range(source.randint(1, 6)):
        at = source.randrange(len(changed) + 1)
        how = source.randrange(6)
        if how == 0:
            changed[at : at + 1] = bytes((source.randrange(256),))
        elif how == 1:
            changed[at:at] = source.choice(DICTIONARY)
        elif how == 2:
            del changed[at : at + source.randint(1, 12)]
        elif how == 3:
            end = at + source.randint(1, 60)
            changed[at:at] = changed[at:end]
        elif how == 4:
            other = source.choice(others)
            cut = source.randrange(len(other))
            changed[at:] = other[cut:]
        elif at < len(changed):
            changed[at] ^= 1 << source.randrange(8)
    return bytes(changed)


@pytest.mark.parametrize("name", SEEDS)
def test_seeds_are_real_exchanges(name):
    assert run(SEEDS[name]()).session.failed is None


@pytest.mark.parametrize("seed", range(4))
def test_mutations(seed):
    source = random.Random(seed)
    scripts = [script for _, script in seeds()]
    failed = 0
    for _ in range(2500):
        failed += run(mutated(source, source.choice(scripts), scripts)).dead
    assert 200 < failed < 2300, "some break the protocol, and some do not"


def test_noise():
    source = random.Random(0)
    for _ in range(500):
        run(source.randbytes(source.randrange(300)))


def test_what_is_not_held_is_verbatim():
    source = random.Random(0)
    for _ in range(300):
        client, server = ClientFrames(), ServerFrames()
        sent, answered = PREFACE + client.settings(), server.settings()
        for stream in range(1, 9, 2):
            sent += client.request(stream, "/x", [("x", "y" * source.randrange(99))], pieces=2)
            sent += client.data(stream, source.randbytes(source.randrange(500)), end=True)
            answered += server.answer(stream, source.randbytes(source.randrange(500)))
        for _ in range(source.randrange(3)):
            at = source.randrange(len(PREFACE), len(sent))
            sent = sent[:at] + source.randbytes(source.randrange(3)) + sent[at + 1 :]
        relays_verbatim(sent, answered, source.choice([1, 3, 40, 10_000]))
