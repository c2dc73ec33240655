"""Where the custom resource definitions come from: a table of fields, and rules that a webhook would check."""
