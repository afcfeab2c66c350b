"""The GPUs of a node as dcgm-exporter shows them: same names, labels, formats and counters file."""
