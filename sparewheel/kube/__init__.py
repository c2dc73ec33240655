"""The Kubernetes port: a thin client over the API server; every side effect on the cluster goes through it."""
