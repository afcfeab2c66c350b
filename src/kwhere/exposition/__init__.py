"""Text and OpenMetrics exposition."""
