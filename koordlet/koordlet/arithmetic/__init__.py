"""What strategies reckon with: pure, a folder a theme; nothing here knows of rounds or modes."""
