"""The pages of one's own account and of teams."""
