"""What Prometheus is told to watch: rules that make one set of series of what exporters call by many names."""
