"""Toolsets of remote servers: how the tools of MCP servers and OpenAPI documents are called."""
