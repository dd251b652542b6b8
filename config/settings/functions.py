"""Limits of stored functions."""

from config.settings.environment import DATA_DIR, env

# seconds that a call of a function may take; a function may ask for less
MAX_FUNCTION_TIMEOUT_S = env.float("MUSTER_MAX_FUNCTION_TIMEOUT", default=120.0)
# megabytes of memory that a call of a function may use; a function may ask for less
MAX_FUNCTION_MEMORY_MB = env.int("MUSTER_MAX_FUNCTION_MEMORY", default=1024)
FUNCTION_IMPORTS = env.list("MUSTER_FUNCTION_IMPORTS", default=["*"])  # patterns of modules that functions may import
# libraries that functions may require; `manage.py install_libraries` installs them into LIBRARIES_DIR
LIBRARIES = env.list("MUSTER_LIBRARIES", default=[])
# libraries that the tool run_python loads, if they are installed
INTERPRETER_LIBRARIES = env.list(
    "MUSTER_INTERPRETER_LIBRARIES",
    default=["numpy", "pandas", "openpyxl", "matplotlib", "pillow", "pypdf", "python-docx", "cryptography", "chardet"],
)
# where `manage.py install_libraries` installs the libraries
LIBRARIES_DIR = env.str("MUSTER_LIBRARIES_DIR", default=str(DATA_DIR / "libraries"))
# patterns of hosts that ctx.http may be allowed to reach
FUNCTION_HOSTS = env.list("MUSTER_FUNCTION_HOSTS", default=["*"])
