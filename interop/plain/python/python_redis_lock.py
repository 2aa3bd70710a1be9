"""The peer python-redis-lock. Its leases are whole seconds, rounded up here."""

import math
import sys

import redis
import redis_lock

from peer import NotOwned, serve


def whole(lease):
    return None if lease is None else math.ceil(lease)


class PythonRedisLock:
    def __init__(self, url):
        self.client = redis.Redis.from_url(url)

    def acquire(self, name, lease, waits):
        lock = redis_lock.Lock(self.client, name, expire=whole(lease))
        return lock if lock.acquire(blocking=waits) else None

    def release(self, lock):
        try:
            lock.release()
        except redis_lock.NotAcquired as error:
            raise NotOwned from error

    def extend(self, lock, lease):
        try:
            lock.extend(whole(lease))
        except redis_lock.NotAcquired as error:
            raise NotOwned from error

    def force(self, name):
        redis_lock.Lock(self.client, name).reset()


serve(PythonRedisLock(sys.argv[1]))
