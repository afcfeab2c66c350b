"""The version of this distribution, read by the build and by `kwhere --version`."""

__version__ = "0.1.0"
