"""The Slurm port: a thin client over slurmrestd."""
