"""Chains at work: steps, child runs, fan-out, leases."""
