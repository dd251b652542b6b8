"""What every app uses and what knows no row: statements, Redis commands, broadcast, guarded HTTP, threads."""
