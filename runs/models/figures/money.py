"""Amounts of money as people read them. The interface sends decimals instead (`cost`)."""

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

CENT = Decimal("0.01")
# Smaller amounts are shown as less than this.
LEAST = Decimal("0.000001")


def format_dollars(value: Any) -> str:
    """US dollars: $0, $1,234.50, $0.0042 (two digits that count), <$0.000001. An empty value is 0."""
    try:
        amount = Decimal(str(value or 0))
    except InvalidOperation:
        return "–"
    sign = "−" if amount < 0 else ""
    return f"{sign}{of_size(abs(amount))}"


def of_size(amount: Decimal) -> str:
    if amount == 0:
        return "$0"
    if amount < LEAST:
        return f"<${LEAST:f}"
    if amount >= CENT:
        return f"${amount.quantize(CENT, ROUND_HALF_EVEN):,f}"
    places = 1 - amount.adjusted()
    rounded = round(amount, places)
    return f"${rounded.normalize():f}"
