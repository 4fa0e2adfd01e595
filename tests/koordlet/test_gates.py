from koordlet.gates import DEFAULTS, gates_of


def test_gates_are_koordlets() -> None:
    gates, others = gates_of(("PSICollector=true", "NodeTopologyReport=False", "AuditEvents=true"))
    assert gates == {**DEFAULTS, "PSICollector": True, "NodeTopologyReport": False}
    assert others == ("AuditEvents=true",)
