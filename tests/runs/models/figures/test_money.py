"""Money is shown as people read it, and sent as decimals."""

from decimal import Decimal

import pytest

from runs.models.figures.money import format_dollars


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "$0"),
        (None, "$0"),
        ("0.00", "$0"),
        (Decimal("0.00000001"), "<$0.000001"),
        (Decimal("0.00000421"), "$0.0000042"),
        (Decimal("0.0042"), "$0.0042"),
        (0.001, "$0.001"),
        (Decimal("0.00999"), "$0.01"),
        (Decimal("0.01"), "$0.01"),
        (0.1 + 0.2, "$0.30"),
        ("1234.5", "$1,234.50"),
        (1_000_000, "$1,000,000.00"),
        (-2.5, "−$2.50"),
        ("x", "–"),
    ],
)
def test_dollars(value, shown):
    assert format_dollars(value) == shown
