"""The only place that replaces a node: claims, backends, and the reconcile that Pulumi and the controller call."""
