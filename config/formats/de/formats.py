# Numbers stand in attributes of pictures and fields, which know no decimal comma; dates in fields are ISO 8601.
DECIMAL_SEPARATOR = "."
THOUSAND_SEPARATOR = ""
DATE_INPUT_FORMATS = ["%Y-%m-%d", "%d.%m.%Y"]
DATETIME_INPUT_FORMATS = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M"]
