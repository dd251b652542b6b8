"""The full screen: `muster top`."""
