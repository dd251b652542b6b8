"""The fork servers of one pool, by profile: started when first needed, replaced when they have
ended, are stuck or too old.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack

from .forkserver import Child, ForkServer, LateChild, NoChild, SandboxUnavailable
from .libraries import NONE, Libraries, list_profile_libraries

SPARES_MAX = 16
_FEW_SPARES = {"compiler": 1, "reader": 1}
_ROTATE_CALLS, _ROTATE_S = 10_000, 15 * 60
MOST_WITH_LIBRARIES = 4
_WITHOUT_LIBRARIES, _IDLE_S = 4, 15 * 60
# Seconds after which an unused server without libraries ends: it starts again in a tenth of a second.
REST_S = 45.0
# A fork takes milliseconds; a server that takes this long is stopped, and another one is started.
_STUCK_S = 3.0


class ForkServers:
    """Takes children from the profile's server, and starts another server if that one does not
    answer.
    """

    def __init__(
        self, spares: int, patience_s: float, without_layers: Iterable[str], libraries: Libraries = NONE
    ) -> None:
        self.spares = min(max(spares, 0), SPARES_MAX)
        self._patience_s = patience_s
        self._without = frozenset(without_layers)
        self.libraries = libraries
        self._refusal = ""
        self.start_afresh()

    def start_afresh(self) -> None:
        """The initial state without servers; also used in a forked copy of the host."""
        self._lock = threading.Lock()
        self._starts: dict[str, threading.Lock] = {}
        self.by_profile: dict[str, ForkServer] = {}
        self._backoff: dict[str, tuple[float, float]] = {}
        self._kept: set[str] = set()
        self._rest: threading.Timer | None = None

    def forget(self) -> None:
        """Called in a forked copy of the host: the processes belong to the original."""
        for server in self.by_profile.values():
            server.forget()
        self.start_afresh()

    def refuse_everything(self, reason: str) -> None:
        """From now on no server can start."""
        self._refusal = reason

    def close(self) -> None:
        """End all servers and all running calls."""
        with ExitStack() as stack:
            for start in list(self._starts.values()):
                # A server that is just starting ends as well.
                stack.enter_context(start)
            with self._lock:
                servers, self.by_profile = list(self.by_profile.values()), {}
        for server in servers:
            server.close()

    def take(self, profile: str) -> tuple[ForkServer, Child]:
        """A child of the profile's server, or of a new server if the old one has ended or is stuck.

        Raises SandboxUnavailable, NoChild.
        """
        for patience_s in (min(self._patience_s, _STUCK_S), self._patience_s):
            server = self._server(profile)
            server.enter()
            try:
                child = server.take(patience_s)
                if len(self.by_profile) > _WITHOUT_LIBRARIES:
                    self._forget_idle()
                return server, child
            except (LateChild, SandboxUnavailable) as error:
                if isinstance(error, LateChild):
                    server.give_up()
                server.leave()
                self.drop(server)
                failure = error
            except NoChild:
                server.leave()
                raise
        raise failure

    def _server(self, profile: str) -> ForkServer:
        server = self.by_profile.get(profile)
        if server is not None:
            return server
        with self._start_of(profile):
            if self._refusal:
                raise SandboxUnavailable(self._refusal)
            return self.by_profile.get(profile) or self._started(profile)

    def _start_of(self, profile: str) -> threading.Lock:
        """Held while the profile's server starts. Other profiles do not wait for it: libraries take
        seconds to load.
        """
        with self._lock:
            return self._starts.setdefault(profile, threading.Lock())

    def _started(self, profile: str) -> ForkServer:
        not_before, pause = self._backoff.get(profile, (0.0, 0.25))
        if time.monotonic() < not_before:
            raise SandboxUnavailable(f"the {profile} fork server failed to start; the next attempt follows shortly")
        try:
            server = ForkServer(profile, without=self._without, libraries=self.libraries)
        except SandboxUnavailable:
            self._backoff[profile] = (time.monotonic() + pause, min(pause * 2, 30.0))
            raise
        self._backoff.pop(profile, None)
        with self._lock:
            self.by_profile[profile] = server
        self._look_at_rest()
        return server

    def keep(self, profile: str) -> None:
        """Start the profile's server now, and let it stay however long nothing is called."""
        self._kept.add(profile)
        self.warm_now(profile)

    def drop(self, server: ForkServer) -> None:
        """Take no more children from the server. It ends with its last call."""
        with self._lock:
            if self.by_profile.get(server.profile) is server:
                del self.by_profile[server.profile]
        server.retire()

    def refill(self, server: ForkServer) -> None:
        """Create spares after the answer is ready, not before: creating them competes with the
        caller.
        """
        if server.taken >= _ROTATE_CALLS or time.monotonic() - server.started_at > _ROTATE_S:
            self._rotate(server)
            return
        try:
            server.order(_FEW_SPARES.get(server.profile, self.spares))
        except SandboxUnavailable:
            self.drop(server)

    def _rotate(self, server: ForkServer) -> None:
        """Replace an old server: one zygote has one hash seed and one address layout. A server with
        libraries is started before the old one ends, because loading them takes a second.
        """
        if list_profile_libraries(server.profile):
            threading.Thread(target=self._replace, args=(server,), daemon=True).start()
        else:
            self.drop(server)

    def _replace(self, server: ForkServer) -> None:
        with self._start_of(server.profile):
            if self.by_profile.get(server.profile) is not server:
                return
            try:
                self._started(server.profile)
            except SandboxUnavailable:
                # The old one continues.
                return
        server.retire()

    def warm(self, profile: str) -> None:
        """Start the server of a profile with libraries in the background, so that it is ready for
        the first call.
        """
        if list_profile_libraries(profile) and profile not in self.by_profile:
            threading.Thread(target=self.warm_now, args=(profile,), daemon=True).start()

    def warm_now(self, profile: str) -> None:
        """Start the profile's server and its spares, unless that fails."""
        try:
            self.refill(self._server(profile))
        except SandboxUnavailable:
            # The call that needs it will report the error.
            return

    def _look_at_rest(self) -> None:
        """Look after a while which servers are idle, as long as there are some that may end."""
        with self._lock:
            if self._rest is None and self.by_profile.keys() - self._kept:
                self._rest = threading.Timer(REST_S / 2, self._forget_resting)
                self._rest.daemon = True
                self._rest.start()

    def _forget_resting(self) -> None:
        self._rest = None
        self._forget_idle()
        self._look_at_rest()

    def _forget_idle(self) -> None:
        """End servers that were not used for long, and of those with libraries all but the few most
        recently used: each uses tens of megabytes.
        """
        now = time.monotonic()
        servers = [server for profile, server in list(self.by_profile.items()) if profile not in self._kept]
        with_libraries = [server for server in servers if list_profile_libraries(server.profile)]
        with_libraries.sort(key=lambda server: -server.used_at)
        too_many = with_libraries[MOST_WITH_LIBRARIES:]
        for server in servers:
            longest_s = REST_S
            if server in with_libraries:
                longest_s = _IDLE_S
            is_idle = server.running <= 0 and now - server.used_at > longest_s
            if is_idle or server in too_many:
                self.drop(server)
