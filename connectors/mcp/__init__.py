"""The client side of the Model Context Protocol: sessions over HTTP and over pipes."""
