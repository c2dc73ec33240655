"""What makes a training job outlive its nodes: fenced checkpoints, a TERM that isn't lost, a data order that is kept.

Copy this folder beside your own training script. Only `launch.py` (one process per node) and your script import torch;
everything in here moves bytes and numbers, so it works with any model and can be tested without a GPU.
"""
