"""What runs inside the sandbox's own processes: loaded by a clean interpreter, nothing else of Muster is."""
