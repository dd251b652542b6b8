"""The reference client: runs an agent's tool calls on a person's own machine. Plain Python; no part of the server."""

VERSION = "0.1.0"
