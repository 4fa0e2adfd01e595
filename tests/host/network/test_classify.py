from __future__ import annotations

import json

import pytest
from koord_host.network.classify import (
    CgroupMatch,
    Classifier,
    CommandResult,
    FilterCommand,
    FilterRules,
    Iptables,
    Nft,
    choose,
    rules_of,
)
from koord_model.traffic import Traffic, TrafficClass, TrafficMember

RULES = FilterRules(
    {4: {"10.0.0.9": "1:3", "10.0.0.7": "1:3", "10.0.0.8": "1:beef"}, 6: {"fd00::7": "1:4"}},
    (CgroupMatch("kubepods/pod1", 77, "1:4"),),
)
NOTHING = FilterRules({4: {}, 6: {}})


def traffic(*members: TrafficMember) -> Traffic:
    default = TrafficMember("kube-system/proxy", "10.0.0.1", "kubepods/podp")
    return Traffic(
        1000,
        (
            TrafficClass("system", 2, 1, 1, 1, default=True, members=(default,)),
            TrafficClass("be", 4, 3, 1, 1, members=members),
        ),
    )


class TestRules:
    def test_addresses_where_there_are_else_cgroups_and_none_of_the_default(self) -> None:
        inodes = {"kubepods/a": 5}
        found = rules_of(
            traffic(
                TrafficMember("b/one", "10.0.0.7", "kubepods/x"),
                TrafficMember("b/six", "FD00:0::7", "kubepods/y"),
                TrafficMember("b/host", "", "kubepods/a"),
            ),
            inodes.__getitem__,
        )
        assert found == FilterRules(
            {4: {"10.0.0.7": "1:4"}, 6: {"fd00::7": "1:4"}}, (CgroupMatch("kubepods/a", 5, "1:4"),)
        )

    def test_a_cgroup_that_is_gone_and_v2_cgroups_that_are_not_there_are_not_matched(self) -> None:
        def identity(path: str) -> int:
            raise FileNotFoundError(path)

        for found in (identity, None):
            assert rules_of(traffic(TrafficMember("b/host", "", "kubepods/a")), found) == NOTHING

    @pytest.mark.parametrize(
        ("member", "reported"),
        [
            (TrafficMember("b/one", "10.0.0", "k"), "pod b/one: '10.0.0' does not appear to be"),
            (
                TrafficMember("b/one", "fe80::1%a }\nflush ruleset", "k"),
                'pod b/one: address "fe80::1%a }\\nflush',
            ),
            (TrafficMember("b/one", "", 'k" }\nflush ruleset'), 'pod b/one: cgroup "k" }\\nflush'),
            (TrafficMember("b/one", "", ""), 'pod b/one: cgroup ""'),
        ],
    )
    def test_what_could_harm_a_command_is_reported(
        self, member: TrafficMember, reported: str
    ) -> None:
        found = rules_of(traffic(member), lambda _: 1)
        assert (found.addresses, found.cgroups) == (NOTHING.addresses, ())
        [line] = found.ignored
        assert line.startswith(reported)

    def test_the_mark_is_of_the_rules(self) -> None:
        other = FilterRules(RULES.addresses, (CgroupMatch("kubepods/pod1", 78, "1:4"),))
        again = FilterRules({4: dict(reversed(RULES.addresses[4].items())), 6: RULES.addresses[6]})
        assert len({RULES.mark, other.mark, NOTHING.mark, again.mark}) == 4
        assert FilterRules(RULES.addresses, RULES.cgroups, ("reported",)).mark == RULES.mark


def chains(*names: str, table: str = "pykoord") -> CommandResult:
    listed = [{"chain": {"family": "inet", "table": table, "name": name}} for name in names]
    return CommandResult(0, json.dumps({"nftables": [{"metainfo": {"version": "1.0.6"}}, *listed]}))


class TestNft:
    def test_the_table_is_replaced_as_a_whole(self) -> None:
        [command] = Nft().plan(RULES, [chains()])
        assert command.words == ("nft", "-f", "-")
        assert (
            command.text
            == f"""\
add table inet pykoord
delete table inet pykoord
table inet pykoord {{
chain mark_{RULES.mark} {{ }}
chain made_here {{
type filter hook output priority -150; policy accept;
socket cgroupv2 level 2 "kubepods/pod1" meta priority set 1:4
}}
chain leaving {{
type filter hook postrouting priority -150; policy accept;
meta priority set ip saddr map {{ 10.0.0.7 : 1:3, 10.0.0.8 : 1:beef, 10.0.0.9 : 1:3 }}
meta priority set ip6 saddr map {{ fd00::7 : 1:4 }}
}}
}}
"""
        )

    def test_its_mark_says_that_it_is_in_force(self) -> None:
        assert Nft().plan(RULES, [chains("made_here", f"mark_{RULES.mark}")]) == ()
        assert Nft().plan(RULES, [chains(f"mark_{RULES.mark}", table="other")]) != ()
        assert Nft().plan(RULES, [chains(f"mark_{NOTHING.mark}")]) != ()

    def test_reading_and_removal(self) -> None:
        assert [str(command) for command in Nft().reading()] == ["nft -j list chains inet"]
        delete = FilterCommand(("nft", "delete", "table", "inet", "pykoord"))
        assert Nft().removal([chains("made_here")]) == (delete,)
        others = (CommandResult(1), CommandResult(0, "{}"), CommandResult(0, "[]"))
        for nothing in (chains("x", table="other"), *others):
            assert Nft().removal([nothing]) == ()
        [command] = Nft().plan(NOTHING, [CommandResult(1, error="no such table")])
        assert "saddr" not in command.text
        assert "socket" not in command.text


def listed(rules: FilterRules | None = None, *, jump: bool = False) -> CommandResult:
    lines = ["-P POSTROUTING ACCEPT"]
    if rules is not None:
        mark = f"mark-{rules.mark}"
        lines += ["-N PYKOORD-TRAFFIC", f"-A PYKOORD-TRAFFIC -m comment --comment {mark}"]
    if jump:
        lines.append("-A POSTROUTING -j PYKOORD-TRAFFIC")
    return CommandResult(0, "\n".join(lines))


SETS = CommandResult(0, "pykoord4-1-3\npykoord4-1-beef\npykoord6-1-4\nforeign\n")


class TestIptables:
    def test_sets_then_chains(self) -> None:
        sets, v4, v6 = Iptables().plan(RULES, [listed(), listed(), CommandResult(0, "foreign\n")])
        assert sets.words == ("ipset", "restore")
        assert sets.text.splitlines()[:7] == [
            "create pykoord4-1-3 hash:ip family inet -exist",
            "create pykoord4-new hash:ip family inet -exist",
            "flush pykoord4-new",
            "add pykoord4-new 10.0.0.7",
            "add pykoord4-new 10.0.0.9",
            "swap pykoord4-new pykoord4-1-3",
            "destroy pykoord4-new",
        ]
        assert "create pykoord6-1-4 hash:ip family inet6 -exist" in sets.text
        assert v4.words == ("iptables-restore", "-w", "--noflush")
        assert (
            v4.text
            == f"""\
*mangle
:PYKOORD-TRAFFIC - [0:0]
-A PYKOORD-TRAFFIC -m comment --comment mark-{RULES.mark}
-A PYKOORD-TRAFFIC -m set --match-set pykoord4-1-3 src -j CLASSIFY --set-class 1:3
-A PYKOORD-TRAFFIC -m set --match-set pykoord4-1-beef src -j CLASSIFY --set-class 1:beef
-A PYKOORD-TRAFFIC -m cgroup --path kubepods/pod1 -j CLASSIFY --set-class 1:4
-A POSTROUTING -j PYKOORD-TRAFFIC
COMMIT
"""
        )
        assert v6.words[0] == "ip6tables-restore"
        assert "pykoord6-1-4 src -j CLASSIFY --set-class 1:4" in v6.text

    def test_its_mark_says_that_it_is_in_force(self) -> None:
        there = listed(RULES, jump=True)
        assert Iptables().plan(RULES, [there, there, SETS]) == ()
        for broken in (listed(RULES), listed(NOTHING, jump=True), CommandResult(1)):
            assert len(Iptables().plan(RULES, [there, broken, SETS])) == 3
        assert len(Iptables().plan(RULES, [there, there, CommandResult(0, "pykoord4-1-3")])) == 3
        assert len(Iptables((4,)).plan(RULES, [listed(), CommandResult(0)])) == 2
        # There is one jump.
        _, v4, v6 = Iptables().plan(RULES, [listed(jump=True), listed(), SETS])
        assert "-A POSTROUTING" not in v4.text
        assert "-A POSTROUTING" in v6.text

    def test_sets_of_classes_that_are_gone_go_last(self) -> None:
        there = listed(RULES, jump=True)
        planned = Iptables().plan(NOTHING, [there, there, SETS])
        assert [str(command) for command in planned] == [
            "iptables-restore -w --noflush",
            "ip6tables-restore -w --noflush",
            "ipset destroy pykoord4-1-3",
            "ipset destroy pykoord4-1-beef",
            "ipset destroy pykoord6-1-4",
        ]

    def test_removal(self) -> None:
        there = listed(RULES, jump=True)
        v4, v6, *sets = Iptables().removal([there, listed(RULES), SETS])
        assert v4.text.splitlines()[1:-1] == [
            "-D POSTROUTING -j PYKOORD-TRAFFIC",
            "-F PYKOORD-TRAFFIC",
            "-X PYKOORD-TRAFFIC",
        ]
        assert "-D" not in v6.text
        assert len(sets) == 3
        assert Iptables().removal([listed(), CommandResult(1), CommandResult(1)]) == ()


IPTABLES = {"iptables", "iptables-restore", "ipset"}


@pytest.mark.parametrize(
    ("programs", "kind", "commands"),
    [
        ({"nft", *IPTABLES}, Nft, ["nft -j list chains inet"]),
        (IPTABLES, Iptables, ["iptables -w -t mangle -S", "ipset list -n"]),
        (
            {*IPTABLES, "ip6tables-restore"},
            Iptables,
            ["iptables -w -t mangle -S", "ip6tables -w -t mangle -S", "ipset list -n"],
        ),
        ({"iptables", "iptables-restore"}, None, []),
        ({"ipset"}, None, []),
        (set(), None, []),
    ],
)
def test_the_host_decides(
    programs: set[str], kind: type[Classifier] | None, commands: list[str]
) -> None:
    found = choose(programs.__contains__)
    assert type(found) is (kind or type(None))
    assert [str(command) for command in (found.reading() if found else ())] == commands
