"""From a Slinky object to the Kubernetes objects that it stands for: pure functions."""
