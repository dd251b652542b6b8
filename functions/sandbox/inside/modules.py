"""The modules that functions may import, and the names each one shows. Data only.

A module is offered as a read-only copy holding exactly these names, never as the real thing: real modules leak
(`json.codecs`, `re.enum.sys`). Left out on purpose: operator.attrgetter and methodcaller, string.Formatter,
collections.UserString, functools.update_wrapper (`wraps` is our own), random.SystemRandom, and whatever touches files,
processes, threads or sockets.
"""

from __future__ import annotations

CORE, EXTENDED = "core", "extended"

_CORE = {
    "math": """acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf erfc
        exp exp2 expm1 fabs factorial floor fmod frexp fsum gamma gcd hypot inf isclose isfinite isinf isnan
        isqrt lcm ldexp lgamma log log10 log1p log2 modf nan nextafter perm pi pow prod radians remainder sin
        sinh sqrt tan tanh tau trunc ulp""",
    "json": "dumps loads JSONDecodeError",
    "re": """compile search match fullmatch split findall finditer sub subn escape purge error Pattern Match A
        ASCII I IGNORECASE M MULTILINE S DOTALL X VERBOSE U UNICODE L LOCALE NOFLAG RegexFlag""",
    "datetime": "date datetime time timedelta timezone tzinfo UTC MINYEAR MAXYEAR",
    "collections": "ChainMap Counter OrderedDict UserDict UserList defaultdict deque namedtuple",
    "collections.abc": """Awaitable AsyncGenerator AsyncIterable AsyncIterator ByteString Callable Collection
        Container Coroutine Generator Hashable ItemsView Iterable Iterator KeysView Mapping MappingView
        MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized ValuesView""",
    "itertools": """accumulate chain combinations combinations_with_replacement compress count cycle dropwhile
        filterfalse groupby islice pairwise permutations product repeat starmap takewhile tee zip_longest""",
    "functools": """cache cached_property cmp_to_key lru_cache partial partialmethod reduce singledispatch
        total_ordering wraps""",
    "string": """ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits printable
        punctuation whitespace Template""",
    "random": """betavariate choice choices expovariate gammavariate gauss getrandbits lognormvariate
        normalvariate paretovariate randbytes randint random randrange sample seed shuffle triangular uniform
        vonmisesvariate weibullvariate Random""",
    "time": """asctime ctime gmtime localtime mktime monotonic monotonic_ns perf_counter perf_counter_ns
        process_time process_time_ns sleep strftime strptime struct_time time time_ns timezone tzname""",
    "typing": """Annotated Any AnyStr AsyncGenerator AsyncIterable AsyncIterator Awaitable Callable ClassVar
        Collection Concatenate Coroutine DefaultDict Deque Dict Final FrozenSet Generator Generic Hashable
        Iterable Iterator List Literal LiteralString Mapping MutableMapping MutableSequence MutableSet
        NamedTuple Never NewType NoReturn NotRequired Optional OrderedDict ParamSpec Protocol Required
        Reversible Self Sequence Set Sized SupportsFloat SupportsIndex SupportsInt TYPE_CHECKING Tuple Type
        TypeAlias TypeGuard TypeVar TypedDict Union Unpack assert_never cast final overload runtime_checkable""",
    "operator": """abs add and_ concat contains countOf eq floordiv ge getitem gt iadd iand iconcat ifloordiv
        ilshift imatmul imod imul index indexOf inv invert ior ipow irshift is_ is_not isub itemgetter itruediv
        ixor le lshift lt matmul mod mul ne neg not_ or_ pos pow rshift setitem delitem sub truediv truth xor""",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
    "heapq": "heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest",
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
    "zlib": "adler32 crc32 compress decompress error",
    "uuid": "UUID NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL NAMESPACE_X500 uuid3 uuid4 uuid5",
    "textwrap": "TextWrapper dedent fill indent shorten wrap",
    "calendar": """Calendar FRIDAY HTMLCalendar MONDAY SATURDAY SUNDAY THURSDAY TUESDAY TextCalendar WEDNESDAY
        calendar day_abbr day_name firstweekday isleap leapdays month month_abbr month_name monthcalendar
        monthrange timegm weekday IllegalMonthError IllegalWeekdayError""",
    "dataclasses": "FrozenInstanceError KW_ONLY MISSING asdict astuple dataclass field fields is_dataclass replace",
    "enum": "Enum Flag IntEnum IntFlag StrEnum auto member nonmember unique verify CONTINUOUS NAMED_FLAGS UNIQUE",
    "abc": "ABC ABCMeta abstractmethod abstractproperty abstractclassmethod abstractstaticmethod",
    "contextlib": """AbstractAsyncContextManager AbstractContextManager AsyncExitStack ExitStack aclosing
        asynccontextmanager closing contextmanager nullcontext suppress""",
    "zoneinfo": "ZoneInfo ZoneInfoNotFoundError available_timezones",
    "asyncio": """CancelledError Condition Event Future InvalidStateError Lock PriorityQueue Queue QueueEmpty
        QueueFull Semaphore BoundedSemaphore LifoQueue Task TaskGroup TimeoutError FIRST_COMPLETED
        FIRST_EXCEPTION ALL_COMPLETED as_completed create_task current_task gather iscoroutine
        iscoroutinefunction run shield sleep timeout wait wait_for to_thread""",
    "unicodedata": """bidirectional category combining decimal decomposition digit east_asian_width
        is_normalized lookup mirrored name normalize numeric unidata_version""",
    "html": "escape unescape",
    "urllib.parse": """parse_qs parse_qsl quote quote_plus unquote unquote_plus urldefrag urlencode urljoin
        urlparse urlsplit urlunparse urlunsplit""",
    "csv": """DictReader DictWriter Error QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE QUOTE_NONNUMERIC reader writer""",
    "difflib": "SequenceMatcher get_close_matches ndiff unified_diff context_diff",
    "struct": "Struct calcsize error iter_unpack pack unpack unpack_from",
    "copy": "copy deepcopy",
    "numbers": "Complex Integral Number Rational Real",
    "array": "array",
    "graphlib": "CycleError TopologicalSorter",
    "ipaddress": """IPv4Address IPv4Network IPv6Address IPv6Network IPv4Interface IPv6Interface ip_address
        ip_interface ip_network collapse_addresses summarize_address_range""",
    "colorsys": "hls_to_rgb hsv_to_rgb rgb_to_hls rgb_to_hsv rgb_to_yiq yiq_to_rgb",
}

EXPORTS: dict[str, tuple[str, ...]] = {name: tuple(names.split()) for name, names in (_CORE | _EXTENDED).items()}
_PROFILES = dict.fromkeys(_CORE, CORE) | dict.fromkeys(_EXTENDED, EXTENDED)
ALWAYS_ALLOWED = frozenset({"__future__", "typing"})  # they only help to write annotations

HINTS = {
    "os": "Functions have no file system and no environment. Pass what you need as an argument.",
    "sys": "Functions cannot reach the interpreter. For a size use len(), for printing use print().",
    "subprocess": "Functions cannot start programs.",
    "socket": "Functions have no network. Ask the host: ctx.http(url).",
    "requests": "Functions have no network of their own. Ask the host: ctx.http(url).",
    "httpx": "Functions have no network of their own. Ask the host: ctx.http(url).",
    "urllib.request": "Functions have no network of their own. Ask the host: ctx.http(url).",
    "threading": "Functions have no threads. Write an `async def` and use asyncio.gather.",
    "multiprocessing": "Functions have no processes. Write an `async def` and use asyncio.gather.",
    "pickle": "Use json instead: data crosses the sandbox as JSON only.",
    "logging": "Use print(), or ctx.log(message).",
    "pathlib": "Functions have no file system. Pass the text as an argument.",
    "io": "Functions have no files. For a text's lines, also for csv.reader: text.splitlines(). To collect text: "
    "a list and ''.join(); csv.writer takes any object with a write method.",
    "inspect": "Functions cannot look at frames or source.",
    "ctypes": "Functions cannot call C code.",
    "importlib": "Write a plain import statement at the top instead.",
    "django": "Functions never see the server's own code. Use ctx.call() with a granted tool.",
}


def profile_of(imported: set[str]) -> str:
    """The smallest profile that offers all these modules."""
    return EXTENDED if any(_PROFILES.get(name) == EXTENDED for name in imported) else CORE


def offered(profile: str) -> tuple[str, ...]:
    """The modules that a zygote of this profile preloads."""
    return tuple(_CORE) if profile == CORE else tuple(_CORE | _EXTENDED)


def allows(allowed: frozenset[str], name: str) -> bool:
    """Whether the author's list covers this module: by its name, or by its package's."""
    return name in ALWAYS_ALLOWED or name in allowed or name.partition(".")[0] in allowed
