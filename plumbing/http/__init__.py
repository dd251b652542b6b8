"""HTTP to addresses that users give: only public addresses are reached, and those that an administrator allows."""
