"""Vendor libraries and BMCs."""
