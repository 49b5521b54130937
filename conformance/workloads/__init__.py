"""Recorded workloads of real services: who asked for how much, when, sharing what."""
