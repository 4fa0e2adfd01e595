"""The Container Runtime Interface: which services there are, and a client.

Glossary:
    services  CRI v1 and v1alpha2 by their gRPC names; the messages used here are the same in both.
    client    a connection to a runtime that finds out which of them it has.
"""
