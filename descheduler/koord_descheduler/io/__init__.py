"""The way to the API and back."""
