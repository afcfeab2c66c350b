"""Fixtures shared by these tests."""

from tests.databases import engine

__all__ = ["engine"]
