"""Events of runs: recorded, broadcast, streamed and waited for."""
