"""Summaries and the weekly report."""
