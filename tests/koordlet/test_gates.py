from koordlet.gates import DEFAULTS, gates_of


def test_what_is_not_named_has_its_default() -> None:
    assert gates_of(()) == (DEFAULTS, ())


def test_named_gates_and_those_of_something_else() -> None:
    gates, others = gates_of(("PSICollector=true", "NodeTopologyReport=False", "AuditEvents=true"))
    assert gates == {**DEFAULTS, "PSICollector": True, "NodeTopologyReport": False}
    assert others == ("AuditEvents=true",)
