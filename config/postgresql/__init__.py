"""Django's PostgreSQL backend, whose pool hands out the connection that was used last."""
