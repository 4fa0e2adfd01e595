"""koord-device-daemon: finds the accelerators of a node, and describes them in files.

A *vendor* knows its PCI functions and asks its own tool about them. What it answers is merged
with what was known (*inventory*), and written as Koordinator's ``xpu-device-infos``.
"""
