"""Text from elsewhere: as a frame takes it, and as a terminal may show it."""


def sendable(text: str) -> str:
    """Without NUL characters and halves of surrogate pairs, which no frame carries."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\ufffd")


def printable(text: str) -> str:
    """What a model wrote must not move the cursor, clear the screen or begin a line of its own."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
