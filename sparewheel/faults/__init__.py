"""Fault catalogue (data), parsing of kernel log lines, classification: pure."""
