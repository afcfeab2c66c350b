"""kwhere accounts every joule, gram of CO2e and CPU-second of a cluster to the unit that caused it."""

from kwhere._version import __version__

__all__ = ["__version__"]
