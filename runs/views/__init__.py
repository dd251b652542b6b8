"""The pages. Each view reads, calls one thing and shows it; what changes something goes through the API's own doors."""
