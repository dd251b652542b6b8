"""Django's SQLite backend in which the writers of one process take turns."""
