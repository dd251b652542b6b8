"""One parent for everything that `manage.py serve` runs.

serve → supervision (order, logs, restarts) → processes (fork, sessions, death signals)
                    → valkey | postgres (embedded servers) and programs (web, worker)
"""
