import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model import cpuset

CPUS = st.frozensets(st.integers(0, cpuset.MAX_CPU - 1), max_size=50)


@given(CPUS)
def test_what_is_rendered_parses_back(cpus: frozenset[int]) -> None:
    assert cpuset.parse(cpuset.render(cpus)) == cpus


@given(CPUS)
def test_rendering_is_canonical(cpus: frozenset[int]) -> None:
    scattered = ",".join(str(cpu) for cpu in sorted(cpus, reverse=True))
    assert cpuset.render(cpuset.parse(scattered)) == cpuset.render(cpus)


@given(st.text(alphabet="0123456789-, \nx٣"))
def test_any_text_is_a_set_or_a_clear_error(text: str) -> None:
    problem = ""
    try:
        cpuset.parse(text)
    except ValueError as error:
        problem = str(error)
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", set()),
        (" \n", set()),
        ("0", {0}),
        ("0-3,8", {0, 1, 2, 3, 8}),
        ("8,0-3\n", {0, 1, 2, 3, 8}),
        ("2,2,1-2", {1, 2}),
    ],
)
def test_kernel_lists(text: str, cpus: set[int]) -> None:
    assert cpuset.parse(text) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "-1", "1--2", "1,,2", "0x1", "1-2-3", "٣", "9" * 5000])
def test_other_text_is_refused_and_shown(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid CPU list; expected one like") as caught:
        cpuset.parse(text)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("text", ["3-1", "0-99999", "70000", "0-999999999"])
def test_ranges_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid range of CPUs"):
        cpuset.parse(text)


def test_the_same_range_over_and_over_is_not_worked_through() -> None:
    with pytest.raises(ValueError, match="over and over"):
        cpuset.parse(",".join(["0-65535"] * 30_000))


def test_runs_are_joined() -> None:
    assert cpuset.render([9, 8, 1, 0, 2, 5]) == "0-2,5,8-9"
