"""What happens to a NodeSet's pods and Slurm nodes: decisions are pure, ``reconcile`` carries them out."""
