"""Agent Skills: instructions with files, versioned, and read by agents when they need them."""
