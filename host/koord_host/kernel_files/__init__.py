"""What the texts of the kernel's files mean: one parser a file or directory. No IO."""
