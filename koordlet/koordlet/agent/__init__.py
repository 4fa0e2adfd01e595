"""koordlet as a program: flags, gates, and how its modules are wired together."""
