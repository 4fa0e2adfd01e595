"""Rules of the host's packet filter that assign pods' packets to classes.

A packet's priority is its class: HTB takes it, so that no filter of its own is
needed. Packets of pods with an address are forwarded, and matched by that address.
Packets of pods on the host's network are made here, and matched by their cgroup,
where it is a v2 one; where it is a v1 one, by ``net_cls`` (``traffic``).

Each way of filtering plans commands from the text of what is in force. It leaves a
mark of the whole plan in the kernel, which says later whether anything is to be done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import ClassVar, Protocol

from koord_model.excerpt import excerpt
from koord_model.traffic import Traffic, classid

_MARK_LENGTH = 16
_PLAIN = re.compile(r"[A-Za-z0-9_.:@/-]+")


@dataclass(frozen=True, slots=True)
class FilterCommand:
    """A command: its words and what it reads."""

    words: tuple[str, ...]
    text: str = ""

    def __str__(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Exit status and output of a command."""

    status: int
    output: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class CgroupMatch:
    """A v2 cgroup, by its path below the root and its inode, and its packets' class.

    The kernel matches the cgroup, not its path: another of the same name is another.
    """

    path: str
    inode: int
    classid: str


@dataclass(frozen=True, slots=True)
class FilterRules:
    """Matches of packets, and the class of each ("1:3").

    ``addresses`` are by IP version, then by address.
    """

    addresses: Mapping[int, Mapping[str, str]]
    cgroups: tuple[CgroupMatch, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """The same for the same rules, and for no others."""
        cgroups = [[cgroup.path, cgroup.inode, cgroup.classid] for cgroup in self.cgroups]
        shown = json.dumps([self.addresses, cgroups], sort_keys=True)
        return sha256(shown.encode()).hexdigest()[:_MARK_LENGTH]


class Classifier(Protocol):
    """One way of filtering packets."""

    name: str

    def reading(self) -> tuple[FilterCommand, ...]:
        """The commands that show what is in force; they may fail where nothing is."""
        ...

    def plan(self, rules: FilterRules, found: Sequence[CommandResult]) -> tuple[FilterCommand, ...]:
        """The commands that put the rules in force; none where they are."""
        ...

    def removal(self, found: Sequence[CommandResult]) -> tuple[FilterCommand, ...]:
        """The commands that leave nothing of ours; none where there is nothing."""
        ...


def rules_of(traffic: Traffic, identity: Callable[[str], int] | None) -> FilterRules:
    """Return the matches of these classes; none of the default, which takes the rest.

    ``identity`` is the inode of a v2 cgroup; it raises ``OSError`` for one that is gone: a
    command that names it would be refused as a whole. It is ``None`` where pods have
    no v2 cgroup.
    """
    addresses: dict[int, dict[str, str]] = {4: {}, 6: {}}
    cgroups: list[CgroupMatch] = []
    ignored = []
    for traffic_class in traffic.classes:
        for member in traffic_class.members if not traffic_class.default else ():
            try:
                if member.ip:
                    address = _address(member.ip)
                    addresses[address.version].setdefault(
                        str(address), classid(traffic_class.minor)
                    )
                elif identity is not None:
                    cgroups += _cgroup(member.cgroup, traffic_class.minor, identity)
            except ValueError as error:
                ignored.append(
                    f"pod {member.pod}: {error} (its packets are in no class of its own)"
                )
    return FilterRules(
        addresses, tuple(sorted(cgroups, key=lambda match: match.path)), tuple(ignored)
    )


def _address(text: str) -> IPv4Address | IPv6Address:
    # It becomes part of a command's text; a zone ("fe80::1%eth0") may be any text, and none
    # is in a packet.
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise ValueError(f"address {excerpt(text)} cannot be matched; expected none with a zone")
    return address


def _cgroup(path: str, minor: int, identity: Callable[[str], int]) -> list[CgroupMatch]:
    # It becomes part of a command's text.
    if not _PLAIN.fullmatch(path):
        raise ValueError(f"cgroup {excerpt(path)} cannot be matched; expected a kubelet's name")
    try:
        return [CgroupMatch(path, identity(path), classid(minor))]
    except OSError:
        return []  # it has ended since, or not begun


class Nft:
    """nftables: one table of our own, replaced as a whole in one transaction."""

    name = "nft"
    _TABLE = "pykoord"

    def reading(self) -> tuple[FilterCommand, ...]:
        return (FilterCommand(("nft", "-j", "list", "chains", "inet")),)

    def plan(self, rules: FilterRules, found: Sequence[CommandResult]) -> tuple[FilterCommand, ...]:
        if f"mark_{rules.mark}" in self._chains(found):
            return ()
        return (FilterCommand(("nft", "-f", "-"), self._script(rules)),)

    def removal(self, found: Sequence[CommandResult]) -> tuple[FilterCommand, ...]:
        if not self._chains(found):
            return ()
        return (FilterCommand(("nft", "delete", "table", "inet", self._TABLE)),)

    def _chains(self, found: Sequence[CommandResult]) -> set[str]:
        try:
            listed = json.loads(found[0].output)["nftables"]
        except (ValueError, KeyError, TypeError):
            return set()
        chains = [entry["chain"] for entry in listed if "chain" in entry]
        return {chain["name"] for chain in chains if chain["table"] == self._TABLE}

    def _script(self, rules: FilterRules) -> str:
        # Deleting what is not there is refused, hence the first line.
        lines = [f"add table inet {self._TABLE}", f"delete table inet {self._TABLE}"]
        lines += [f"table inet {self._TABLE} {{", f"chain mark_{rules.mark} {{ }}"]
        # Sockets are known only to the first hook, forwarded packets only to the second.
        lines += ["chain made_here {", "type filter hook output priority -150; policy accept;"]
        for cgroup in rules.cgroups:
            depth = cgroup.path.count("/") + 1
            match = f'socket cgroupv2 level {depth} "{cgroup.path}"'
            lines.append(f"{match} meta priority set {cgroup.classid}")
        lines += ["}", "chain leaving {"]
        lines.append("type filter hook postrouting priority -150; policy accept;")
        for version, word in ((4, "ip"), (6, "ip6")):
            if pairs := rules.addresses[version]:
                by_address = ", ".join(f"{address} : {pairs[address]}" for address in sorted(pairs))
                lines.append(f"meta priority set {word} saddr map {{ {by_address} }}")
        return "\n".join([*lines, "}", "}", ""])


class Iptables:
    """iptables and ipset: a chain of our own, and a set for each class and IP version."""

    name = "iptables"
    _CHAIN = "PYKOORD-TRAFFIC"
    _PROGRAMS: ClassVar[Mapping[int, str]] = {4: "iptables", 6: "ip6tables"}
    _FAMILIES: ClassVar[Mapping[int, str]] = {4: "inet", 6: "inet6"}

    def __init__(self, versions: Sequence[int] = (4, 6)) -> None:
        self._versions = tuple(versions)

    def reading(self) -> tuple[FilterCommand, ...]:
        listing = ("-w", "-t", "mangle", "-S")
        rules = [FilterCommand((self._PROGRAMS[version], *listing)) for version in self._versions]
        return (*rules, FilterCommand(("ipset", "list", "-n")))

    def plan(self, rules: FilterRules, found: Sequence[CommandResult]) -> tuple[FilterCommand, ...]:
        sets = {
            name: (version, members)
            for version in self._versions
            for name, members in _by_class(version, rules.addresses[version]).items()
        }
        there = self._sets(found)
        in_force = [self._in_force(rules, answer.output) for answer in found[:-1]]
        if all(in_force) and there == set(sets):
            return ()
        made = [self._fill(sets)] if sets else []
        for version, answer in zip(self._versions, found, strict=False):
            names = [name for name in sets if sets[name][0] == version]
            made.append(self._restore(version, self._chain(rules, names, answer.output)))
        return (*made, *self._destroy(there - set(sets)))

    def removal(self, found: Sequence[CommandResult]) -> tuple[FilterCommand, ...]:
        made = []
        for version, answer in zip(self._versions, found, strict=False):
            lines = [f"-D {self._JUMP}"] if f"-A {self._JUMP}" in answer.output else []
            if f"-N {self._CHAIN}" in answer.output:
                lines += [f"-F {self._CHAIN}", f"-X {self._CHAIN}"]
            if lines:
                made.append(self._restore(version, lines))
        return (*made, *self._destroy(self._sets(found)))

    _JUMP = f"POSTROUTING -j {_CHAIN}"

    def _in_force(self, rules: FilterRules, listed: str) -> bool:
        return f"mark-{rules.mark}" in listed and f"-A {self._JUMP}" in listed

    def _sets(self, found: Sequence[CommandResult]) -> set[str]:
        prefixes = tuple(f"pykoord{version}-" for version in self._versions)
        return {name for name in found[-1].output.split() if name.startswith(prefixes)}

    def _fill(self, sets: Mapping[str, tuple[int, Sequence[str]]]) -> FilterCommand:
        """Each set is filled aside and swapped in, so that no packet meets half of one."""
        lines = []
        for name, (version, addresses) in sets.items():
            aside = f"pykoord{version}-new"
            family = self._FAMILIES[version]
            lines += [
                f"create {set_name} hash:ip family {family} -exist" for set_name in (name, aside)
            ]
            lines += [f"flush {aside}", *(f"add {aside} {address}" for address in addresses)]
            lines += [f"swap {aside} {name}", f"destroy {aside}"]
        return FilterCommand(("ipset", "restore"), "\n".join([*lines, ""]))

    def _chain(self, rules: FilterRules, sets: Sequence[str], listed: str) -> list[str]:
        add, classify = f"-A {self._CHAIN}", "-j CLASSIFY --set-class"
        # Naming a chain empties it.
        lines = [f":{self._CHAIN} - [0:0]", f"{add} -m comment --comment mark-{rules.mark}"]
        lines += [
            f"{add} -m set --match-set {name} src {classify} {_class_of(name)}" for name in sets
        ]
        lines += [
            f"{add} -m cgroup --path {cgroup.path} {classify} {cgroup.classid}"
            for cgroup in rules.cgroups
        ]
        jump = f"-A {self._JUMP}"
        return lines if jump in listed else [*lines, jump]

    def _restore(self, version: int, lines: Sequence[str]) -> FilterCommand:
        words = (f"{self._PROGRAMS[version]}-restore", "-w", "--noflush")
        return FilterCommand(words, "\n".join(["*mangle", *lines, "COMMIT", ""]))

    def _destroy(self, sets: Iterable[str]) -> list[FilterCommand]:
        return [FilterCommand(("ipset", "destroy", name)) for name in sorted(sets)]


def _by_class(version: int, addresses: Mapping[str, str]) -> dict[str, list[str]]:
    """The addresses of each set; a set's name says its class."""
    sets: dict[str, list[str]] = {}
    for address in sorted(addresses):
        name = f"pykoord{version}-{addresses[address].replace(':', '-')}"
        sets.setdefault(name, []).append(address)
    return sets


def _class_of(name: str) -> str:
    return ":".join(name.split("-")[1:])


def choose(has: Callable[[str], bool]) -> Classifier | None:
    """The way this host filters packets, by the programs it has; ``None`` where it has none."""
    if has("nft"):
        return Nft()
    if has("iptables") and has("iptables-restore") and has("ipset"):
        return Iptables((4, 6) if has("ip6tables-restore") else (4,))
    return None
