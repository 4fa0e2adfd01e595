"""The scheduler's plugins: a file or a folder each; they never import each other."""
