"""The line protocol of the Python peers. `interop/plain/README.md` describes it."""

import sys
import time


class NotOwned(Exception):
    """The library reports that the lock is not held, or no longer."""


class Unsupported(Exception):
    """The library has no such call."""


def milliseconds(word):
    """Reads a lease in seconds, or None for a lock without an expiry."""
    return None if word == "none" else int(word) / 1000


VERBS = {"try": "try_"} | {verb: verb for verb in ("acquire", "release", "extend", "force", "crowd")}


class Peer:
    """Answers commands with one library, and remembers the locks that it holds.

    A library has the methods `acquire(name, lease, waits)`, which returns a held lock or None, `release(lock)`,
    `extend(lock, lease)` and `force(name)`, and a synchronous `client` for the counter of a crowd.
    """

    def __init__(self, library):
        self.library = library
        self.held = {}

    def acquire(self, name, lease):
        self.held[name] = self.library.acquire(name, milliseconds(lease), waits=True)
        return "ok"

    def try_(self, name, lease):
        lock = self.library.acquire(name, milliseconds(lease), waits=False)
        if lock is None:
            return "busy"
        self.held[name] = lock
        return "ok"

    def release(self, name):
        self.library.release(self.held.pop(name))
        return "ok"

    def extend(self, name, lease):
        self.library.extend(self.held[name], milliseconds(lease))
        return "ok"

    def force(self, name):
        self.library.force(name)
        return "ok"

    def crowd(self, name, lease, duration, counter):
        end = time.monotonic() + int(duration) / 1000
        counts = in_time = 0
        while time.monotonic() < end:
            lock = self.library.acquire(name, milliseconds(lease), waits=True)
            in_time += time.monotonic() < end
            count = int(self.library.client.get(counter) or 0)
            self.library.client.set(counter, count + 1)
            self.library.release(lock)
            counts += 1
        return f"ok {counts} {in_time}"

    def answer(self, line):
        verb, *words = line.split()
        try:
            if verb not in VERBS:
                raise Unsupported
            return getattr(self, VERBS[verb])(*words)
        except NotOwned:
            return "not-owned"
        except Unsupported:
            return "unsupported"
        except Exception as error:
            return "error " + " ".join(f"{type(error).__name__}: {error}".split())


def serve(library):
    """Answers each line of standard input until it ends."""
    peer = Peer(library)
    print("ready", flush=True)
    for line in sys.stdin:
        print(peer.answer(line), flush=True)
