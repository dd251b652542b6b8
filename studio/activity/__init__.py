"""The pages that show what happened and what will: the dashboard, runs, the audit log, schedules."""
