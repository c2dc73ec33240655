"""Ten thousand nodes on a real API server; Slurm's answers come from ``slurmrestd.py``."""
