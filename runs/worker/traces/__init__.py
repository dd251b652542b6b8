"""Traces of runs for OpenTelemetry, made from their rows after they have ended."""
