"""The fault-tolerant PyTorch job that users copy: `train.sbatch`, `train.py` and the package `resumable`."""
