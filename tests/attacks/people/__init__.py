"""A fuzzer of people: random teams, roles, keys and rows, and random steps through random doors, beside a model."""
