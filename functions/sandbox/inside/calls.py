"""System call numbers by architecture, and the calls that the sandbox's processes may make. Data
only.
"""

from __future__ import annotations

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_SHARED = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "pidfd_open": 434, "clone3": 435, "close_range": 436, "openat2": 437, "pidfd_getfd": 438,
    "landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446,
}  # fmt: skip

NUMBERS = {
    "x86_64": _SHARED | {
        "read": 0, "write": 1, "open": 2, "close": 3, "fstat": 5, "poll": 7, "lseek": 8, "mmap": 9, "mprotect": 10,
        "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "sched_yield": 24,
        "mremap": 25, "madvise": 28, "dup": 32, "dup2": 33, "nanosleep": 35, "getitimer": 36, "setitimer": 38,
        "getpid": 39, "socket": 41, "connect": 42, "accept": 43, "sendto": 44, "recvfrom": 45, "sendmsg": 46,
        "recvmsg": 47, "bind": 49, "listen": 50, "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58,
        "execve": 59, "exit": 60, "wait4": 61, "kill": 62, "fcntl": 72, "getrlimit": 97, "getrusage": 98,
        "gettimeofday": 96, "times": 100, "ptrace": 101, "getuid": 102, "getgid": 104, "geteuid": 107,
        "getegid": 108, "getppid": 110, "getgroups": 115, "getresuid": 118, "getresgid": 120, "capset": 126,
        "sigaltstack": 131, "personality": 135, "pivot_root": 155, "prctl": 157, "setrlimit": 160, "chroot": 161,
        "mount": 165, "umount2": 166, "reboot": 169, "init_module": 175, "delete_module": 176, "gettid": 186,
        "time": 201, "futex": 202, "sched_getaffinity": 204, "restart_syscall": 219, "clock_gettime": 228,
        "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231, "kexec_load": 246, "waitid": 247,
        "add_key": 248, "request_key": 249, "keyctl": 250, "ppoll": 271, "unshare": 272, "set_robust_list": 273,
        "openat": 257, "accept4": 288, "dup3": 292, "pipe2": 293, "perf_event_open": 298, "prlimit64": 302,
        "open_by_handle_at": 304, "setns": 308, "getcpu": 309,
        "process_vm_readv": 310, "process_vm_writev": 311,
        "finit_module": 313, "seccomp": 317, "getrandom": 318, "kexec_file_load": 320, "bpf": 321, "execveat": 322,
        "userfaultfd": 323, "membarrier": 324, "rseq": 334,
        # files
        "stat": 4, "lstat": 6, "ioctl": 16, "readv": 19, "writev": 20, "pread64": 17, "pwrite64": 18, "getcwd": 79,
        "chdir": 80, "rename": 82, "mkdir": 83, "rmdir": 84, "unlink": 87, "readlink": 89, "chmod": 90, "fchmod": 91,
        "umask": 95, "access": 21, "truncate": 76, "ftruncate": 77, "fsync": 74, "fdatasync": 75, "mkdirat": 258,
        "newfstatat": 262, "unlinkat": 263, "renameat": 264, "readlinkat": 267, "faccessat": 269, "renameat2": 316,
        "getdents64": 217, "statx": 332, "faccessat2": 439, "utimensat": 280, "fchmodat": 268,
    },
    "aarch64": _SHARED | {
        "dup": 23, "dup3": 24, "fcntl": 25, "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "openat": 56,
        "close": 57, "pipe2": 59, "lseek": 62, "read": 63, "write": 64, "ppoll": 73, "fstat": 80, "capset": 91,
        "personality": 92, "exit": 93, "exit_group": 94, "waitid": 95, "unshare": 97, "futex": 98,
        "set_robust_list": 99, "nanosleep": 101, "getitimer": 102, "setitimer": 103, "kexec_load": 104,
        "init_module": 105, "delete_module": 106, "clock_gettime": 113, "clock_getres": 114,
        "clock_nanosleep": 115, "ptrace": 117, "sched_getaffinity": 123, "sched_yield": 124,
        "restart_syscall": 128, "kill": 129, "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135,
        "rt_sigreturn": 139, "reboot": 142, "getresuid": 148, "getresgid": 150, "times": 153, "getgroups": 158,
        "getrlimit": 163, "setrlimit": 164, "getrusage": 165, "prctl": 167, "getcpu": 168, "gettimeofday": 169,
        "getpid": 172, "getppid": 173, "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178,
        "socket": 198, "socketpair": 199, "bind": 200, "listen": 201, "accept": 202, "connect": 203, "sendto": 206,
        "recvfrom": 207, "sendmsg": 211, "recvmsg": 212, "brk": 214, "munmap": 215, "mremap": 216, "add_key": 217,
        "request_key": 218, "keyctl": 219, "clone": 220, "execve": 221, "mmap": 222, "mprotect": 226,
        "madvise": 233, "perf_event_open": 241, "accept4": 242, "wait4": 260, "prlimit64": 261,
        "open_by_handle_at": 265, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271,
        "finit_module": 273, "seccomp": 277, "getrandom": 278, "bpf": 280, "execveat": 281, "userfaultfd": 282,
        "membarrier": 283, "rseq": 293, "kexec_file_load": 294,
        # files
        "ioctl": 29, "readv": 65, "writev": 66, "pread64": 67, "pwrite64": 68, "getcwd": 17, "chdir": 49, "fchmod": 52,
        "umask": 166, "truncate": 45, "ftruncate": 46, "fsync": 82, "fdatasync": 83, "getdents64": 61, "mkdirat": 34,
        "unlinkat": 35, "renameat": 38, "readlinkat": 78, "faccessat": 48, "renameat2": 276, "statx": 291,
        "faccessat2": 439, "utimensat": 88, "fchmodat": 53,
    },
}  # fmt: skip

# The system calls that a child with stored code may make. mmap, mprotect and prlimit64 are filtered by their
# arguments (see seccomp.py). A name that an architecture lacks (aarch64: time, poll) is ignored.
CHILD_ALLOWED = (
    "read", "write", "close", "fstat", "lseek", "munmap", "brk", "mremap", "madvise", "rt_sigaction",
    "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "futex", "clock_gettime", "clock_getres", "clock_nanosleep",
    "gettimeofday", "nanosleep", "getrandom", "getrusage", "times", "setitimer", "getitimer", "poll", "ppoll",
    "sched_yield", "restart_syscall", "time", "getpid", "gettid", "getuid", "geteuid", "getgid", "getegid",
    "getresuid", "getresgid", "membarrier", "rseq", "exit", "exit_group",
)  # fmt: skip

# These calls are never made by accident: the child is killed, and the outcome is a violation.
CHILD_KILLED = (
    "execve", "execveat", "fork", "vfork", "socket", "connect", "accept", "accept4", "bind", "listen", "socketpair",
    "sendto", "recvfrom", "sendmsg", "recvmsg", "ptrace", "mount", "umount2", "pivot_root", "chroot", "unshare",
    "setns", "bpf", "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "perf_event_open",
    "keyctl", "add_key", "request_key", "process_vm_readv", "process_vm_writev", "init_module", "finit_module",
    "delete_module", "kexec_load", "kexec_file_load", "reboot", "open_by_handle_at", "pidfd_getfd", "personality",
)  # fmt: skip

# Additional calls of the fork server: it forks, waits, passes descriptors and confines its children.
ZYGOTE_ALLOWED = (
    *CHILD_ALLOWED, "clone", "wait4", "waitid", "pidfd_open", "pidfd_send_signal", "sendmsg", "recvmsg", "recvfrom",
    "sendto", "socketpair", "pipe2", "prctl", "seccomp", "close_range", "dup", "dup2", "dup3", "fcntl", "setrlimit",
    "getrlimit", "set_robust_list", "getppid",
)  # fmt: skip

# Additional calls of a child with the `files` profile. fcntl and ioctl are filtered by their command (see seccomp.py);
# what may be opened is decided by the root that the child sees and by Landlock.
FILE_ALLOWED = (
    "open", "openat", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "getdents64",
    "readv", "writev", "pread64", "pwrite64", "ftruncate", "truncate", "fsync", "fdatasync", "mkdir", "mkdirat",
    "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "readlink", "readlinkat", "getcwd", "chdir",
    "chmod", "fchmod", "fchmodat", "umask", "utimensat",
)  # fmt: skip

# Additional calls of the fork server of that profile: each child gets a directory of its own.
MOUNTING = (
    "unshare", "mount", "capset", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
)  # fmt: skip
