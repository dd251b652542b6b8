"""What runs inside the sandbox's own processes: loaded by a clean interpreter that knows nothing of the rest of Muster."""
