from koord_manager.noderesource.core import devices


def test_what_cannot_be_read_costs_itself() -> None:
    ignored: list[str] = []
    good = {"type": "gpu", "health": True}
    listed = [7, {"type": "gpu", "health": "yes"}, good]
    device = {"metadata": {"name": "n1"}, "spec": {"devices": listed}}
    assert len(devices.healthy(device, "gpu", ignored)) == 1
    assert ignored == [
        "Device n1 spec.devices[0] is 7; expected an object (left out)",
        'Device n1 spec.devices[1].health is "yes"; expected true or false (default false kept)',
    ]
