"""Click commands; an error becomes an exit code here and nowhere else."""
