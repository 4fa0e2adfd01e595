import pytest
from koord_model.feature_gates import gates_of

DEFAULTS = {"Moving": False, "Standing": True}


def test_what_is_not_named_has_its_default() -> None:
    assert gates_of((), DEFAULTS) == (DEFAULTS, ())


def test_named_gates_and_those_of_something_else() -> None:
    gates, others = gates_of(("Moving=true", "Standing=False", "Flying=true"), DEFAULTS)
    assert gates == {"Moving": True, "Standing": False}
    assert others == ("Flying=true",)


@pytest.mark.parametrize("word", ["maybe", "", "1"])
def test_neither_on_nor_off(word: str) -> None:
    with pytest.raises(ValueError, match=f'feature gate Moving is "{word}"; expected true or'):
        gates_of((f"Moving={word}",), DEFAULTS)
