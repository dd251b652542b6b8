"""Redis and Valkey, and a Redis Cluster: commands, publishing, and waiting for what is published."""
