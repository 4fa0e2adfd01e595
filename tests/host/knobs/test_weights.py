"""Weights of shares, as the library that runc and containerd use makes them."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import KNOBS
from koord_host.knobs.weights import RuntimeWeights, WeightFormula

LINEAR, QUADRATIC = WeightFormula
RECORDED = Path(__file__).parent / "cpu_weights"
SHARES = KNOBS["cpu.shares"]
POD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu1.slice"
CONTAINER = f"{POD}/cri-containerd-c1.scope"


@pytest.mark.parametrize("formula", WeightFormula)
def test_all_shares_have_the_weight_that_the_library_gives_them(formula: WeightFormula) -> None:
    lines = (RECORDED / f"{formula}.txt").read_text().splitlines()
    counts = [int(word) for line in lines if not line.startswith("#") for word in line.split()]
    recorded = [weight for weight, count in enumerate(counts, 1) for _ in range(count)]
    assert len(recorded) == 262_143
    assert [formula.weight(shares) for shares in range(2, 262_145)] == recorded


@pytest.mark.parametrize(
    ("runtime", "formula"),
    [
        ("runc-1.1.5", LINEAR),
        ("runc-1.3.6", QUADRATIC),
        ("crun-1.21", LINEAR),
        ("crun-1.28", QUADRATIC),
    ],
)
def test_runtimes_of_each_kind(runtime: str, formula: WeightFormula) -> None:
    text = (RECORDED / "runtimes.txt").read_text().splitlines()
    names, *rows = (line.split() for line in text if not line.startswith("#"))
    weights = {int(row[0]): int(row[names.index(runtime)]) for row in rows}
    assert len(weights) > 10
    assert {shares: formula.weight(shares) for shares in weights} == weights


@pytest.mark.parametrize("formula", WeightFormula)
def test_every_weight_has_the_least_shares_that_give_it(formula: WeightFormula) -> None:
    for weight in range(1, 10_001):
        shares = formula.shares(weight)
        assert formula.weight(shares) == weight
        assert shares == 2 or formula.weight(shares - 1) == weight - 1


@pytest.mark.parametrize("formula", WeightFormula)
@pytest.mark.parametrize(("shares", "weight"), [(0, 1), (1, 1), (1 << 20, 10_000)])
def test_shares_out_of_range(formula: WeightFormula, shares: int, weight: int) -> None:
    assert formula.weight(shares) == weight


@pytest.mark.parametrize("formula", WeightFormula)
def test_the_weight_of_an_idle_group_is_that_of_the_least_shares(formula: WeightFormula) -> None:
    assert formula.shares(0) == 2


class TestLearning:
    @pytest.mark.parametrize(
        ("shares", "weight", "formula"),
        [
            (512, 59, QUADRATIC),
            (512, 20, LINEAR),
            (1024, 39, LINEAR),
            (512, 33, None),  # somebody else's
            (2, 1, None),  # both give it
            (262_144, 10_000, None),
            (1024, 100, None),  # nobody may have set it yet
        ],
    )
    def test_what_tells(self, shares: int, weight: int, formula: WeightFormula | None) -> None:
        weights = RuntimeWeights()
        weights.learn(CONTAINER, shares, weight, 1)
        assert weights.formula is formula

    def test_the_youngest_container_counts_whatever_the_order(self) -> None:
        reported = [("a", 512, 20, 1), ("b", 512, 59, 3), ("c", 700, 27, 2), ("d", 512, 33, 4)]
        for order in permutations(reported):
            weights = RuntimeWeights()
            for one in order:
                weights.learn(*one)
            assert weights.evidence is not None
            assert weights.evidence == (QUADRATIC, "b", 512, 59, 3)


class TestForms:
    """By which formula a group's weight is read and written."""

    def layout(self, formula: WeightFormula | None, version: int = 2) -> Layout:
        layout = Layout(version, Driver.SYSTEMD)
        if formula:
            layout.weights.learn("somebody", 512, formula.weight(512), 1)
        return layout

    @given(st.integers(2, 262_144), st.sampled_from(WeightFormula))
    def test_a_container_s_is_the_runtime_s(self, shares: int, formula: WeightFormula) -> None:
        layout = self.layout(formula)
        form, weight = layout.form(SHARES, CONTAINER), formula.weight(shares)
        assert form.encode(shares, "") == str(weight)
        assert formula.weight(int(form.decode(f"{weight}\n"))) == weight
        for other in WeightFormula:
            text = f"{other.weight(shares)}\n"
            same = other.weight(shares) == weight
            assert layout.holds(SHARES, CONTAINER, shares, text) is same

    @given(st.integers(2, 262_144))
    def test_while_it_is_not_known_either_is_left(self, shares: int) -> None:
        layout = self.layout(None)
        for formula in WeightFormula:
            assert layout.holds(SHARES, CONTAINER, shares, f"{formula.weight(shares)}\n")
        assert layout.form(SHARES, CONTAINER).encode(shares, "") == str(LINEAR.weight(shares))
        assert not layout.holds(SHARES, CONTAINER, 512, "33\n")

    @pytest.mark.parametrize(
        ("group", "of_runtime"),
        [
            (CONTAINER, True),
            ("kubepods/besteffort/podu1/c1", True),
            ("kubepods/podu1/crio-c1", True),
            (POD, False),
            ("kubepods/besteffort/podu1", False),
            ("kubepods.slice/kubepods-besteffort.slice", False),
            ("kubepods/besteffort", False),
            ("kubepods", False),
            ("", False),
            ("host-latency-sensitive/nginx", False),
        ],
    )
    def test_whose_group_it_is(self, group: str, of_runtime: bool) -> None:
        text = self.layout(QUADRATIC).form(SHARES, group).encode(512, "")
        assert text == ("59" if of_runtime else "20")

    def test_version_1_has_shares(self) -> None:
        assert self.layout(QUADRATIC, 1).form(SHARES, CONTAINER).encode(512, "") == "512"
