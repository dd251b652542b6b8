"""Deterministic simulation of the run engine: see docs/simulation.md."""
