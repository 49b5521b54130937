"""Serving a workload with a small model: ``nullblock serve-trace``."""
