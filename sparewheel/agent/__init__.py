"""Runs on every GPU node: reads the kernel log and the devices, reports NodeHealth."""
