"""Cleans text from elsewhere, for frames and for the terminal."""


def sendable(text: str) -> str:
    """Without NUL characters and lone surrogates, which frames cannot carry."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\ufffd")


def printable(text: str) -> str:
    """A model's text must not move the cursor, clear the screen or start a line of its own."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
