"""Network cards and interrupts, from a double of the kernel's files."""

from __future__ import annotations

from typing import cast

import pytest
from koord_host.kernel_files.interface import FileTree
from koord_host.knobs.layout import Driver, Layout
from koord_model.interrupts import NodeInterrupts, QueueInterrupt
from koordlet.metrics_advisor.collectors.nics import Collector
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    UnavailableError,
)

from tests.support.fake_interrupts import FakeInterrupts


class Machine:
    def __init__(self) -> None:
        self.files = FakeInterrupts(2)
        self.files.add_card("eth0", (30, 31, 32))
        self.files.texts["/sys/class/net/lo/mtu"] = "65536\n"
        self.collector = Collector(
            CollectorSources(cast("FileTree", self.files), Layout(2, Driver.SYSTEMD))
        )

    def look(self, steady: float) -> NodeInterrupts:
        [found] = self.collector.collect(CollectContext(0.0, steady)).infos
        assert isinstance(found, NodeInterrupts)
        return found


def test_cards_with_their_queues_and_rates_from_the_second_look_on() -> None:
    machine = Machine()
    [card] = machine.look(100.0).cards
    assert (card.name, card.packets) == ("eth0", None)
    assert card.interrupts == (QueueInterrupt(31, 0), QueueInterrupt(32, 1))
    assert (card.rx_queues, card.tx_queues) == ((0, 1), (0, 1))
    machine.files.times[32] = 500
    machine.files.jiffies = {0: (0, 1000), 1: (250, 1000)}
    machine.files.texts["/sys/class/net/eth0/statistics/rx_packets"] = "9000\n"
    machine.files.count()
    found = machine.look(110.0)
    assert found.busy == {0: 0.0, 1: 25.0}
    assert found.cards[0].interrupts[1] == QueueInterrupt(32, 1, 50.0)
    assert found.cards[0].packets == 900.0


def test_who_moves_interrupts_is_found_within_a_minute_and_gone_at_once() -> None:
    machine = Machine()
    machine.files.add_process(15, "ksoftirqd/1")
    assert machine.look(0.0).balancer == ""
    machine.files.add_process(77, "irqbalance")
    assert machine.look(60.0).balancer == "irqbalance (PID 77)"
    machine.files.remove_process(77)
    found = machine.look(65.0)
    assert (found.balancer, found.ksoftirqd) == ("", {1: "15@15"})


def test_a_kernel_without_the_files() -> None:
    machine = Machine()
    del machine.files.texts["/proc/net/softnet_stat"]
    with pytest.raises(UnavailableError, match="softnet_stat"):
        machine.look(0.0)
