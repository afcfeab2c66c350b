"""Manifests of Kubernetes for every role: one YAML file per part beside the code that fills in a site's names."""
