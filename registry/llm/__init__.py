"""Language models: connections to providers, retries, streaming, the offline provider."""
