"""HTTP/2 and gRPC as bytes: frames, header blocks, windows, messages. No IO."""
