"""What every API of Muster shares: authentication, throttles, parsing, strict serializers, filters, pages, versions."""
