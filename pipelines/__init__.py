"""What a pipeline runs for an environment: preview with policies, up, the check for drift."""
