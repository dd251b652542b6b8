"""Rules without side effects: policy, plans of chains, due times, stuck runs, signatures. No Django."""
