"""The pages on which people decide: approvals, signed links, and records."""
