"""The command line. It uses the synchronous client and nothing else of the server."""
