"""Cloud accounts: Gmail, Outlook and Teams, their operations and their sync."""
