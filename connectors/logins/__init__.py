"""OAuth logins: authorization, callback, device code, refresh, and the logins of MCP servers."""
