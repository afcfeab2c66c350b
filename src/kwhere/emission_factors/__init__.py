"""Providers of emission factors; each module is one provider, found by walking the package."""
