"""Django's PostgreSQL backend with a pool that returns the most recently used connection."""
