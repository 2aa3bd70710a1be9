"""The two ways to run tasks: tasks of asyncio, and threads.

The workloads are coroutines in both. A coroutine on a thread never suspends, because everything that it awaits blocks.
"""

import asyncio
import sys
import threading
import time


class AsyncTasks:
    """Tasks of asyncio."""

    def __init__(self):
        self.tasks = []

    def run(self, coroutine):
        """Runs the main coroutine to its end."""
        return asyncio.run(coroutine)

    def event(self):
        """Creates an event."""
        return asyncio.Event()

    def start(self, coroutine):
        """Starts a task."""
        return asyncio.create_task(coroutine)

    async def join(self, tasks, limit=None):
        """Waits for the end of all tasks, and no longer than the limit. Returns true if all have ended."""
        if not tasks:
            return True
        _, late = await asyncio.wait(tasks, timeout=limit)
        return not late

    async def reach(self, event):
        """Waits for an event."""
        await event.wait()

    async def pause(self, seconds):
        """Pauses a task. The timers of asyncio round up to the next millisecond, so a thread sleeps for the task."""
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, seconds)

    async def read_line(self):
        """Reads a line of standard input."""
        return await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


class Threads:
    """A thread for each task."""

    def run(self, coroutine):
        """Runs a coroutine to its end, which it reaches without suspending."""
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        raise RuntimeError("a coroutine on a thread suspended")

    def event(self):
        """Creates an event."""
        return threading.Event()

    def start(self, coroutine):
        """Starts a task."""
        thread = threading.Thread(target=self.run, args=(coroutine,), daemon=True)
        thread.start()
        return thread

    async def join(self, tasks, limit=None):
        """Waits for the end of all tasks, and no longer than the limit. Returns true if all have ended."""
        end = None if limit is None else time.monotonic() + limit
        for task in tasks:
            task.join(None if end is None else max(0, end - time.monotonic()))
        return not any(task.is_alive() for task in tasks)

    async def reach(self, event):
        """Waits for an event."""
        event.wait()

    async def pause(self, seconds):
        """Pauses a task."""
        time.sleep(seconds)

    async def read_line(self):
        """Reads a line of standard input."""
        return sys.stdin.readline()
