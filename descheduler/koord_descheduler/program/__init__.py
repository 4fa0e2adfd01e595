"""The program: flags, leadership, pages, the loop of rounds; all parts put together."""
