"""The program: settings, parts put together, leadership, pages about itself."""
