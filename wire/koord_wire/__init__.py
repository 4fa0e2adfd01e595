"""HTTP/2 and gRPC as bytes, without IO.

Glossary:
    frames    HTTP/2 frames: their numbers, writing and taking apart.
    headers   header blocks (HPACK): reading a request's, writing some without a table.
    windows   flow control of a connection whose bytes are held, added or dropped.
    messages  gRPC's messages in a stream of DATA.
    unary     the client's side of a connection that carries requests with short answers.
"""
