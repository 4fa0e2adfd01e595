from koordlet.agent.feature_gates import DEFAULTS, parse_gates


def test_gates_are_koordlets() -> None:
    gates, others = parse_gates(
        ("PSICollector=true", "NodeTopologyReport=False", "AuditEvents=true")
    )
    assert gates == {**DEFAULTS, "PSICollector": True, "NodeTopologyReport": False}
    assert others == ("AuditEvents=true",)
