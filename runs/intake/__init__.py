"""How runs start: messages, chains, child runs, retries. Every start goes through here."""
