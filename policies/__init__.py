"""Policy as code: rules over what a stack declares, judged from files or, in `policies/pack`, by the engine."""
