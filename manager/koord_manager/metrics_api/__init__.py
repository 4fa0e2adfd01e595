"""NodeMetrics kept in memory: nodes report them straight, the API server's clients read them."""
