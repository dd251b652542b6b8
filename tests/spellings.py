"""One sentence in each script and spelling that searches must find, on devices and on the server."""

import unicodedata

TEXTS = {
    "chinese": "退货须在三十天内办理。请保留收据，并联系客服热线。",
    "japanese": "返品は30日以内に限ります。領収書を保管してください。",
    "korean": "반품은 30일 이내에 가능합니다. 영수증을 보관하십시오.",
    "halfwidth": "ｺｰﾋｰ is served at nine.",
    "decomposed": unicodedata.normalize("NFD", "Le café ferme à neuf heures."),
    "street": "Unsere Straße heißt Gartenweg.",
    "capitals": "FUSSBALLPLATZ GEÖFFNET",
    "wide": "Invoice ４７１１ is paid.",
}
