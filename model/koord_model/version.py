"""The version of the distribution, said once."""

VERSION = "0.1.0"
