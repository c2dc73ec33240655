"""Seeded random schedules of faults, trouble and people, played over the simulated ports to their end."""
