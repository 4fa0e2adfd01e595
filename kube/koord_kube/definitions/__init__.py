"""The custom resources that pykoord reads and writes: definitions (CRDs) with schemas. No IO.

Fields are Koordinator's, one module a kind; ``schema`` has the words that they are written in.
"""
