"""Stand-ins for parts that cannot be had without a network."""
