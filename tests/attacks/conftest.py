"""What the attacks need of other folders."""

from tests.knowledge.conftest import libraries

__all__ = ["libraries"]
