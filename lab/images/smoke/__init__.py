"""The images' Slurm on this machine without Kubernetes: one network namespace per node, in a minute.

`python -m lab.images smoke` starts it, tries what users do, and leaves nothing; with `--keep` it stays until Ctrl-C.
"""
