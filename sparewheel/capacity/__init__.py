"""The only place that replaces a node: claims, backends, and the reconcile that `pulumi up` and the controller both call."""
