"""Workloads played through an engine on a clock of their own."""
