"""Protobuf messages: the hook protocol and the part of the CRI we read.

The ``*_pb2`` modules are generated from the ``.proto`` files beside them by
``make proto``; nothing is written here by hand.
"""
