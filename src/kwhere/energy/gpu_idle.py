"""What a GPU is taken to draw idle until it has learned its own."""

IDLE_SHARE_OF_LIMIT = 8
"""Our rounding of public nvidia-smi and rocm-smi outputs of GPUs without a process (docs/methodology.md has them by
model): a tenth to a quarter of the limit on boards with HBM, a thirtieth to a twelfth on desktop boards that clock
down. A figure to begin with, flagged `idle_table`.
"""


def gpu_idle_table_uw(limit_uw: int) -> int:
    """Return the idle power, microwatts, of a GPU with that power limit; within a factor of 2 with HBM, 4 else."""
    return limit_uw // IDLE_SHARE_OF_LIMIT
