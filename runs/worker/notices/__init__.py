"""Tells people that a run waits for them: by e-mail, in their browsers, and in Microsoft Teams."""
