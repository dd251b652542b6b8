"""How numbers and dates are written in each language, where Django's own way would break what pages contain."""
