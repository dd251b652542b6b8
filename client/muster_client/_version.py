"""The version of this package, and of the requests that it sends."""

__version__ = "0.1.0"
