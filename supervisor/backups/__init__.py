"""Backup and restore of a whole site: its database and its stored files, in one archive that proves itself."""
