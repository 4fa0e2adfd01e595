from importlib.metadata import version

from koord_model.version import VERSION


def test_the_distribution_has_this_version() -> None:
    assert version("pykoord") == VERSION
