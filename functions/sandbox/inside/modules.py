"""The modules that functions may import, and the available names of each. Data only.

A module is offered as a read-only copy with exactly these names, never as the real module, because
real modules expose others (`json.codecs`, `re.enum.sys`). Some names are replacements (wrapped.py,
streams.py). Deliberately left out: collections.UserString, random.SystemRandom, uuid.uuid1, and
anything that uses files, processes, threads or sockets.
"""

from __future__ import annotations

from collections.abc import Iterable

CORE, EXTENDED = "core", "extended"

_CORE = {
    "math": """acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf erfc
        exp exp2 expm1 fabs factorial floor fmod frexp fsum gamma gcd hypot inf isclose isfinite isinf isnan
        isqrt lcm ldexp lgamma log log10 log1p log2 modf nan nextafter perm pi pow prod radians remainder sin
        sinh sqrt tan tanh tau trunc ulp""",
    "json": "dump dumps load loads JSONDecodeError JSONDecoder JSONEncoder",
    "re": """compile search match fullmatch split findall finditer sub subn escape purge error Pattern Match A
        ASCII I IGNORECASE M MULTILINE S DOTALL X VERBOSE U UNICODE L LOCALE NOFLAG DEBUG RegexFlag""",
    "datetime": "date datetime time timedelta timezone tzinfo UTC MINYEAR MAXYEAR",
    "collections": "ChainMap Counter OrderedDict UserDict UserList defaultdict deque namedtuple",
    "collections.abc": """Awaitable AsyncGenerator AsyncIterable AsyncIterator ByteString Callable Collection
        Container Coroutine Generator Hashable ItemsView Iterable Iterator KeysView Mapping MappingView
        MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized ValuesView""",
    "itertools": """accumulate chain combinations combinations_with_replacement compress count cycle dropwhile
        filterfalse groupby islice pairwise permutations product repeat starmap takewhile tee zip_longest""",
    "functools": """cache cached_property cmp_to_key lru_cache partial partialmethod reduce singledispatch
        singledispatchmethod total_ordering update_wrapper wraps""",
    "string": """ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits printable
        punctuation whitespace Formatter Template""",
    "random": """betavariate choice choices expovariate gammavariate gauss getrandbits lognormvariate
        normalvariate paretovariate randbytes randint random randrange sample seed shuffle triangular uniform
        vonmisesvariate weibullvariate Random""",
    "time": """asctime ctime gmtime localtime mktime monotonic monotonic_ns perf_counter perf_counter_ns
        process_time process_time_ns sleep strftime strptime struct_time thread_time time time_ns timezone
        tzname altzone daylight""",
    "typing": """AbstractSet Annotated Any AnyStr AsyncContextManager AsyncGenerator AsyncIterable AsyncIterator
        Awaitable BinaryIO ByteString Callable ChainMap ClassVar Collection Concatenate Container ContextManager
        Coroutine Counter DefaultDict Deque Dict Final FrozenSet Generator Generic Hashable IO ItemsView
        Iterable
        Iterator KeysView List Literal LiteralString Mapping MappingView Match MutableMapping MutableSequence
        MutableSet NamedTuple Never NewType NoReturn NotRequired Optional OrderedDict ParamSpec ParamSpecArgs
        ParamSpecKwargs Pattern Protocol Required Reversible Self Sequence Set Sized SupportsAbs SupportsBytes
        SupportsComplex SupportsFloat SupportsIndex SupportsInt SupportsRound TYPE_CHECKING Text TextIO Tuple
        Type TypeAlias TypeGuard TypeVar TypeVarTuple TypedDict Union Unpack ValuesView assert_never assert_type
        cast final get_args get_origin get_type_hints is_typeddict no_type_check overload reveal_type
        runtime_checkable""",
    "operator": """abs add attrgetter methodcaller and_ concat contains countOf eq floordiv ge getitem gt
        iadd iand iconcat ifloordiv
        ilshift imatmul imod imul index indexOf inv invert ior ipow irshift is_ is_not isub itemgetter itruediv
        ixor le lshift lt matmul mod mul ne neg not_ or_ pos pow rshift setitem delitem sub truediv truth
        xor""",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
    "heapq": "heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest",
    "io": "StringIO BytesIO TextIOWrapper SEEK_SET SEEK_CUR SEEK_END UnsupportedOperation DEFAULT_BUFFER_SIZE",
    "sys": """argv byteorder exit exc_info float_info get_int_max_str_digits getdefaultencoding
        getrecursionlimit
        getsizeof hash_info int_info intern maxsize maxunicode platform set_int_max_str_digits setrecursionlimit
        stderr stdout version version_info""",
    "types": """AsyncGeneratorType BuiltinFunctionType BuiltinMethodType CoroutineType DynamicClassAttribute
        EllipsisType FunctionType GeneratorType GenericAlias LambdaType MappingProxyType MethodType NoneType
        NotImplementedType SimpleNamespace UnionType""",
    "__future__": "annotations division generators nested_scopes print_function unicode_literals with_statement",
}

_EXTENDED = {
    "decimal": """Decimal Context getcontext setcontext localcontext BasicContext DefaultContext ExtendedContext
        DecimalException Clamped ConversionSyntax DivisionByZero DivisionImpossible DivisionUndefined
        FloatOperation Inexact InvalidContext InvalidOperation Overflow Rounded Subnormal Underflow ROUND_05UP
        ROUND_CEILING ROUND_DOWN ROUND_FLOOR ROUND_HALF_DOWN ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP MAX_EMAX
        MAX_PREC MIN_EMIN""",
    "statistics": """NormalDist StatisticsError correlation covariance fmean geometric_mean harmonic_mean
        linear_regression mean median median_grouped median_high median_low mode multimode pstdev pvariance
        quantiles stdev variance""",
    "fractions": "Fraction",
    "cmath": """acos acosh asin asinh atan atanh cos cosh e exp inf infj isclose isfinite isinf isnan log log10
        nan nanj phase pi polar rect sin sinh sqrt tan tanh tau""",
    "hashlib": """blake2b blake2s md5 new pbkdf2_hmac scrypt sha1 sha224 sha256 sha384 sha3_224 sha3_256
        sha3_384 sha3_512 sha512 shake_128 shake_256 algorithms_available algorithms_guaranteed""",
    "hmac": "HMAC compare_digest digest new",
    "secrets": "choice compare_digest randbelow randbits token_bytes token_hex token_urlsafe",
    "base64": """a85decode a85encode b16decode b16encode b32decode b32encode b32hexdecode b32hexencode b64decode
        b64encode b85decode b85encode decodebytes encodebytes standard_b64decode standard_b64encode
        urlsafe_b64decode urlsafe_b64encode""",
    "binascii": "a2b_base64 a2b_hex b2a_base64 b2a_hex crc32 crc_hqx hexlify unhexlify Error",
    "zlib": """adler32 compress compressobj crc32 decompress error DEFLATED MAX_WBITS Z_BEST_COMPRESSION
        Z_BEST_SPEED
        Z_DEFAULT_COMPRESSION""",
    "gzip": "BadGzipFile compress decompress",
    "uuid": "UUID NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL NAMESPACE_X500 uuid3 uuid4 uuid5",
    "textwrap": "TextWrapper dedent fill indent shorten wrap",
    "calendar": """Calendar FRIDAY HTMLCalendar MONDAY SATURDAY SUNDAY THURSDAY TUESDAY TextCalendar WEDNESDAY
        calendar day_abbr day_name firstweekday isleap leapdays month month_abbr month_name monthcalendar
        monthrange timegm weekday IllegalMonthError IllegalWeekdayError""",
    "dataclasses": """Field FrozenInstanceError InitVar KW_ONLY MISSING asdict astuple dataclass field fields
        is_dataclass replace""",
    "enum": """CONFORM CONTINUOUS EJECT Enum Flag IntEnum IntFlag KEEP NAMED_FLAGS ReprEnum STRICT StrEnum
        UNIQUE auto
        member nonmember property unique verify""",
    "abc": "ABC ABCMeta abstractmethod abstractproperty abstractclassmethod abstractstaticmethod",
    "contextlib": """AbstractAsyncContextManager AbstractContextManager AsyncExitStack ExitStack aclosing
        AsyncContextDecorator ContextDecorator asynccontextmanager closing contextmanager nullcontext
        redirect_stderr redirect_stdout suppress""",
    "zoneinfo": "ZoneInfo ZoneInfoNotFoundError available_timezones",
    "asyncio": """CancelledError Condition Event Future InvalidStateError Lock PriorityQueue Queue QueueEmpty
        QueueFull Semaphore BoundedSemaphore LifoQueue Task TaskGroup TimeoutError FIRST_COMPLETED
        FIRST_EXCEPTION ALL_COMPLETED as_completed create_task current_task ensure_future gather
        get_running_loop iscoroutine isfuture iscoroutinefunction run shield sleep timeout timeout_at wait
        wait_for to_thread""",
    "unicodedata": """bidirectional category combining decimal decomposition digit east_asian_width
        is_normalized lookup mirrored name normalize numeric unidata_version""",
    "html": "escape unescape",
    "html.entities": "codepoint2name entitydefs html5 name2codepoint",
    "html.parser": "HTMLParser",
    "xml.etree.ElementTree": """C14NWriterTarget Comment Element ElementTree ParseError
        ProcessingInstruction QName
        SubElement TreeBuilder XML XMLID XMLParser XMLPullParser canonicalize dump fromstring
        fromstringlist indent
        iselement iterparse parse register_namespace tostring tostringlist""",
    "xml.dom.minidom": "Document parseString",
    "xml.sax.saxutils": "escape quoteattr unescape",
    "urllib.parse": """ParseResult SplitResult parse_qs parse_qsl quote quote_plus quote_from_bytes unquote
        unquote_plus unquote_to_bytes urldefrag urlencode urljoin
        urlparse urlsplit urlunparse urlunsplit""",
    "csv": """Dialect DictReader DictWriter Error QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE QUOTE_NONNUMERIC
        Sniffer excel
        excel_tab field_size_limit get_dialect list_dialects reader register_dialect unix_dialect
        unregister_dialect writer""",
    "difflib": """Differ HtmlDiff SequenceMatcher context_diff get_close_matches ndiff restore unified_diff""",
    "struct": "Struct calcsize error iter_unpack pack pack_into unpack unpack_from",
    "copy": "Error copy deepcopy",
    "numbers": "Complex Integral Number Rational Real",
    "array": "array",
    "graphlib": "CycleError TopologicalSorter",
    "ipaddress": """AddressValueError NetmaskValueError IPv4Address IPv4Network IPv6Address IPv6Network
        IPv4Interface IPv6Interface ip_address
        ip_interface ip_network v4_int_to_packed v6_int_to_packed collapse_addresses summarize_address_range""",
    "ast": "literal_eval",
    "shlex": "join quote split",
    "pprint": "PrettyPrinter isreadable isrecursive pformat pp pprint saferepr",
    "fnmatch": "filter fnmatch fnmatchcase translate",
    "tomllib": "TOMLDecodeError load loads",
    "configparser": """ConfigParser DuplicateOptionError DuplicateSectionError Error ExtendedInterpolation
        InterpolationError MissingSectionHeaderError NoOptionError NoSectionError ParsingError
        RawConfigParser""",
    "email": "message_from_bytes message_from_string",
    "email.header": "Header decode_header make_header",
    "email.message": "EmailMessage Message MIMEPart",
    "email.mime.application": "MIMEApplication",
    "email.mime.base": "MIMEBase",
    "email.mime.image": "MIMEImage",
    "email.mime.multipart": "MIMEMultipart",
    "email.mime.text": "MIMEText",
    "email.parser": "BytesParser HeaderParser Parser",
    "email.policy": "EmailPolicy SMTP SMTPUTF8 compat32 default strict",
    "email.utils": """collapse_rfc2231_value format_datetime formataddr formatdate getaddresses mktime_tz
        parseaddr
        parsedate parsedate_to_datetime parsedate_tz quote unquote""",
    "traceback": """extract_tb format_exc format_exception format_exception_only format_tb print_exc
        print_exception""",
    "pathlib": "Path PosixPath PurePath PurePosixPath PureWindowsPath",
    "os.path": """altsep basename commonpath commonprefix curdir dirname extsep isabs join normcase
        normpath pardir
        pathsep sep split splitdrive splitext""",
    "codecs": "BOM_UTF16 BOM_UTF16_BE BOM_UTF16_LE BOM_UTF8 decode encode getincrementaldecoder",
    "keyword": "iskeyword issoftkeyword kwlist softkwlist",
    "logging": """CRITICAL DEBUG ERROR FATAL Formatter Handler INFO Logger LoggerAdapter NOTSET NullHandler
        StreamHandler WARN WARNING basicConfig critical debug error exception getLevelName getLogger info log
        warning""",
    "mimetypes": "guess_all_extensions guess_extension guess_type",
    "queue": "Empty Full LifoQueue PriorityQueue Queue SimpleQueue",
    "reprlib": "Repr recursive_repr repr",
    "timeit": "default_timer repeat timeit",
    "warnings": "catch_warnings filterwarnings resetwarnings simplefilter warn",
    "weakref": "ReferenceType WeakKeyDictionary WeakMethod WeakSet WeakValueDictionary proxy ref",
    "colorsys": "hls_to_rgb hsv_to_rgb rgb_to_hls rgb_to_hsv rgb_to_yiq yiq_to_rgb",
}

EXPORTS: dict[str, tuple[str, ...]] = {name: tuple(names.split()) for name, names in (_CORE | _EXTENDED).items()}
_PROFILES = dict.fromkeys(_CORE, CORE) | dict.fromkeys(_EXTENDED, EXTENDED)
# Only needed for annotations.
ALWAYS_ALLOWED = frozenset({"__future__", "typing"})

HINTS = {
    "os": "Functions have no file system and no environment. Pass the value as an argument; for paths "
    "`import os.path`.",
    "subprocess": "Functions cannot start programs.",
    "socket": "Functions have no network. Use ctx.http(url).",
    "http": "Functions have no network of their own. Use ctx.http(url).",
    "requests": "Functions have no network of their own. Use ctx.http(url).",
    "httpx": "Functions have no network of their own. Use ctx.http(url).",
    "aiohttp": "Functions have no network of their own. Use await ctx.http(url).",
    "urllib": "Functions have no network of their own. Use ctx.http(url). urllib.parse is available.",
    "smtplib": "Functions have no network. Call a tool that sends mail: ctx.call(name, …).",
    "threading": "Functions have no threads. Write an `async def` and use asyncio.gather.",
    "concurrent": "Functions have no threads. Write an `async def` and use asyncio.gather.",
    "multiprocessing": "Functions have no processes. Write an `async def` and use asyncio.gather.",
    "signal": "Functions cannot receive signals. The time limit ends them.",
    "pickle": "Use json: arguments and results of a function are JSON only.",
    "shelve": "Functions have no files. Store values with ctx.kv_set(key, value).",
    "sqlite3": "Functions have no files. Store values with ctx.kv_set(key, value).",
    "tempfile": "Functions have no files. io.StringIO and io.BytesIO hold text and bytes in memory.",
    "shutil": "Functions have no files. Pass the text as an argument.",
    "glob": "Functions have no files. To match names use fnmatch.",
    "argparse": "Functions have no command line. Use arguments.",
    "getpass": "Functions have no console. Use an argument.",
    "doctest": "Write examples as tests of the function. Code used only under `if __name__ == '__main__':` is ignored.",
    "unittest": "Write examples as tests of the function.",
    "pytest": "Write examples as tests of the function.",
    "inspect": "Functions cannot inspect frames or source. For annotations use typing.get_type_hints.",
    "gc": "A function's memory is released when it ends.",
    "ctypes": "Functions cannot call C code.",
    "importlib": "Write a plain import statement at the top.",
    "builtins": "Builtins need no import.",
    "platform": "Functions cannot inspect the machine.",
    "django": "Functions cannot access the server's code. Use ctx.call() with a granted tool.",
}
OTHERWISE = "Write it in plain Python, or call a granted tool with ctx.call()."


def find_import_hint(name: str) -> str:
    """The suggested alternative to importing this module."""
    top = name.partition(".")[0]
    return HINTS.get(name) or HINTS.get(top) or _similar(name, EXPORTS) or OTHERWISE


def hint_for_name(module: str, name: str) -> str:
    """The suggested alternative to importing this name of a module."""
    hint = NAME_HINTS.get(f"{module}.{name}") or _similar(name, EXPORTS[module])
    if hint:
        return hint
    return f"Write it in plain Python: only some names of {module} are available."


NAME_HINTS = {
    "uuid.uuid1": "It reveals the machine's address. Use uuid4().",
    "random.SystemRandom": "Use the module secrets.",
    "collections.UserString": "Inherit from str.",
    "io.open": "Functions have no files. io.StringIO(text) reads like a file.",
    "os.path.exists": "Functions have no files.",
    "dataclasses.make_dataclass": "Use a class statement.",
    "asyncio.get_event_loop": "Write an `async def`, or call asyncio.run(…).",
    "types.ModuleType": "Use SimpleNamespace.",
}


def _similar(name: str, names: Iterable[str]) -> str:
    """“Did you mean …?”, by edit distance."""
    farthest = max(1, len(name) // 4)
    close = [one for one in names if _distance(name.lower(), one.lower()) <= farthest]
    if not close:
        return ""
    return f"Did you mean {' or '.join(close[:2])}?"


def _distance(a: str, b: str) -> int:
    """The number of letters to change, add or remove."""
    if abs(len(a) - len(b)) > 3 or len(a) > 60:
        return 60
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def choose_profile(imported: set[str]) -> str:
    """The smallest profile that offers all these modules."""
    if any(_PROFILES.get(name) == EXTENDED for name in imported):
        return EXTENDED
    return CORE


def list_profile_modules(profile: str) -> tuple[str, ...]:
    """The modules preloaded by a zygote of this profile."""
    if profile == CORE:
        return tuple(_CORE)
    return tuple(_CORE | _EXTENDED)


def allows(allowed: frozenset[str], name: str) -> bool:
    """Whether the author's list covers this module, by its own name or by a parent package."""
    while name not in allowed and name not in ALWAYS_ALLOWED:
        name, _, _ = name.rpartition(".")
        if not name:
            return False
    return True
