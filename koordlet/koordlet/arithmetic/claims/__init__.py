"""How much is to be freed, by evicting whom."""
