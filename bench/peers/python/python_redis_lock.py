"""The contender python-redis-lock, whose waiters block in the server. Each task is a thread with a connection."""

import redis
import redis_lock

from contender.serve import serve
from contender.tasks import Threads

# The most threads of a workload. A held lock has a second thread, which renews it.
THREADS = 1000
# More than all threads together. The default is 100, and a waiter keeps its connection.
CONNECTIONS = 4 * THREADS


class PythonRedisLock:
    """A peer."""

    def refusal(self, workload):
        if workload["kind"] != "lock":
            return "it has the plain lock alone"
        names = workload["names"] if workload["what"] == "idle" else 0
        if max(workload["tasks"], names) > THREADS:
            return f"a task is a thread, and {THREADS} are enough"
        return None

    async def connect(self, url, _workload):
        # Scripts keep the client that registered them.
        redis_lock.reset_all_script = None
        self.client = redis.Redis.from_url(url, max_connections=CONNECTIONS)

    async def section(self, request, body):
        expire = max(1, round(request.lease))
        with redis_lock.Lock(self.client, request.name, expire=expire, auto_renewal=request.renewed):
            await body()

    async def close(self):
        self.client.close()


serve(PythonRedisLock(), Threads())
