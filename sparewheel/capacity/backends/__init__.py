"""One file per backend; all pass the same contract tests."""
