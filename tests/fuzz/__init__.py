"""Arbitrary bytes against the frame and header path. ``relay`` is the target, and
``make fuzz`` runs it under libFuzzer; the tests here run the same without it.
"""
