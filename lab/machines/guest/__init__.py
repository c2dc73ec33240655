"""What runs inside a host, on the distribution's own Python: joining, leaving, status. Standard library only."""
