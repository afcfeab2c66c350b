"""The science, pure: attribution, idle baseline, estimator, emissions."""
