"""The reference client: runs the tool calls of agents on the user's own machine. Plain Python,
independent of the server.
"""

VERSION = "0.1.0"
