"""The peer pottery: `Redlock` with one master. Its locks always expire."""

import sys

import redis
from pottery import Redlock
from pottery.exceptions import ExtendUnlockedLock, ReleaseUnlockedLock

from peer import NotOwned, Unsupported, serve


class Pottery:
    def __init__(self, url):
        self.client = redis.Redis.from_url(url)

    def acquire(self, name, lease, waits):
        if lease is None:
            raise Unsupported
        lock = Redlock(key=name, masters={self.client}, auto_release_time=lease)
        return lock if lock.acquire(blocking=waits) else None

    def release(self, lock):
        try:
            lock.release()
        except ReleaseUnlockedLock as error:
            raise NotOwned from error

    def extend(self, lock, lease):
        lock.auto_release_time = lease
        try:
            lock.extend()
        except ExtendUnlockedLock as error:
            raise NotOwned from error

    def force(self, _name):
        raise Unsupported


serve(Pottery(sys.argv[1]))
