"""What a GPU is taken to draw idle until it has learned its own."""

IDLE_SHARE_OF_LIMIT = 8
"""Boards draw an eighth to a tenth of their limit with clocks up and no work: A100 SXM about 50 of 400 W, H100 SXM
about 70 of 700 W, V100 SXM about 40 of 300 W (public nvidia-smi outputs). A figure to begin with, flagged `idle_table`.
"""


def gpu_idle_table_uw(limit_uw: int) -> int:
    """Return the idle power, microwatts, of a GPU with that power limit; ± a half."""
    return limit_uw // IDLE_SHARE_OF_LIMIT
