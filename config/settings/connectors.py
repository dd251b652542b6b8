"""Services that people connect: Google, Microsoft, MCP servers. The addresses can point to emulators."""

from config.settings.environment import env

# OAuth client that an administrator registered with Google
GOOGLE_CLIENT_ID = env.str("MUSTER_GOOGLE_CLIENT_ID", default="")
# secret of this OAuth client; empty for a public client (PKCE only)
GOOGLE_CLIENT_SECRET = env.str("MUSTER_GOOGLE_CLIENT_SECRET", default="")
# page where people sign in with Google
GOOGLE_AUTHORIZE_URL = env.str("MUSTER_GOOGLE_AUTHORIZE_URL", default="https://accounts.google.com/o/oauth2/v2/auth")
# Google's server of OAuth tokens
GOOGLE_OAUTH_URL = env.str("MUSTER_GOOGLE_OAUTH_URL", default="https://oauth2.googleapis.com")
# the Gmail API
GMAIL_URL = env.str("MUSTER_GMAIL_URL", default="https://gmail.googleapis.com")
# OAuth client that an administrator registered with Microsoft
MICROSOFT_CLIENT_ID = env.str("MUSTER_MICROSOFT_CLIENT_ID", default="")
# secret of this OAuth client; empty for a public client (PKCE only)
MICROSOFT_CLIENT_SECRET = env.str("MUSTER_MICROSOFT_CLIENT_SECRET", default="")
# where people sign in with Microsoft, and Microsoft's server of OAuth tokens
MICROSOFT_LOGIN_URL = env.str("MUSTER_MICROSOFT_LOGIN_URL", default="https://login.microsoftonline.com/common")
# Microsoft Graph, for Outlook and Teams
GRAPH_URL = env.str("MUSTER_GRAPH_URL", default="https://graph.microsoft.com")
# Commands that a connection may start as a local MCP server, with their arguments; a last word * allows any others.
MCP_COMMANDS = env.list("MUSTER_MCP_COMMANDS", default=[])
