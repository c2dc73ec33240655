"""A stand-in for Slinky's slurm-operator: the same API, objects, names, conditions and drain rules, at the same pace.

It serves ``slinky.slurm.net/v1beta1`` and knows nothing about the platform that uses it. What it leaves out it says in
the condition ``StandInUnsupported`` of the object that asked for it.
"""
