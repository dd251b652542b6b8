"""The pages of what a site connects to: model providers, accounts and servers, devices, and API clients."""
