"""The workloads, over any peer."""

from dataclasses import dataclass, field, replace

from contender.exclusion import Exclusion
from contender.usage import cpu_us, now, rss_kib, spread

# The pause between two looks at the witness, and at tasks that set up, in seconds.
LOOK = 0.001
# The most acquires of the set-up at one time. Thousands at once run into the time limits of some libraries.
AT_ONCE = 256


@dataclass
class Request:
    """One section that a task wants to run. The lease is in seconds."""

    name: str
    lease: float
    renewed: bool


@dataclass
class Record:
    """The figures of one task."""

    grants: int = 0
    latency: list = field(default_factory=list)
    wait: list = field(default_factory=list)
    holds: list = field(default_factory=list)


class Run:
    """One workload of one peer."""

    def __init__(self, workload, peer, tasks):
        self.workload = workload
        self.peer = peer
        self.tasks = tasks
        self.exclusion = Exclusion(workload)
        self.window = tasks.event()
        self.over = tasks.event()
        self.deadline = 0
        self.set_up = []
        self.errors = []
        self.records = []

    async def to_end(self, url, verb):
        """Runs the workload and returns its figures."""
        figures = {"rss_before_kib": rss_kib()}
        await self.peer.connect(url, self.workload)
        holders, tasks = await self.start()
        await verb.exchange("ready", "go")
        began, cpu = now(), cpu_us()
        self.deadline = began + self.workload["seconds"] * 1e6
        self.window.set()
        await self.tasks.pause(self.workload["seconds"])
        figures |= {"elapsed_us": now() - began, "cpu_us": cpu_us() - cpu, "rss_kib": rss_kib()}
        await verb.exchange("end", "finish")
        released = now()
        self.over.set()
        is_idle = self.workload["what"] == "idle"
        is_served = await self.tasks.join(tasks, self.workload["drain_seconds"] if is_idle else None)
        figures["drain_us"] = now() - released if is_idle and is_served else None
        await self.tasks.join(holders)
        await self.peer.close()
        self.exclusion.close()
        return figures | self.sum()

    def sum(self):
        """Returns the figures of all tasks together."""
        records = self.records
        return {
            "grants": sum(record.grants for record in records),
            "latency": spread(value for record in records for value in record.latency),
            "wait": spread(value for record in records for value in record.wait),
            "per_task": [record.grants for record in records],
            "violations": self.exclusion.violations,
            "errors": len(self.errors),
            "error": self.errors[0] if self.errors else None,
            "holds": [hold for record in records for hold in record.holds],
        }

    async def start(self):
        """Starts the holders and the tasks. Returns when the holders hold and the waiters have started."""
        what, count = self.workload["what"], self.workload["tasks"]
        holders = {"held": count, "idle": self.workload["names"]}.get(what, 0)
        started = []
        for task in range(holders):
            started.append(self.tasks.start(self.hold(task)))
            if len(started) % AT_ONCE == 0 or len(started) == holders:
                await self.until_set_up(len(started))
        body = {"idle": self.wait, "handover": self.take_turns}.get(what, self.contend)
        self.records = [Record() for _ in range(0 if what == "held" else count)]
        tasks = [self.tasks.start(body(task, record)) for task, record in enumerate(self.records)]
        await self.until_set_up(holders + len(tasks))
        return started, tasks

    async def until_set_up(self, count):
        while len(self.set_up) < count:
            if self.errors:
                raise RuntimeError(f"the set-up failed: {self.errors[0]}")
            await self.tasks.pause(LOOK)

    def request(self, task):
        what, prefix = self.workload["what"], self.workload["prefix"]
        if what in ("pairs", "held"):
            name = f"{prefix}:{self.workload['index']}:{task}"
        elif what == "idle":
            name = f"{prefix}:{task % self.workload['names']}"
        else:
            name = prefix
        return Request(name, self.workload["lease_ms"] / 1e3, what == "held")

    async def attempt(self, section):
        """Awaits a section, and records its error."""
        try:
            await section
        except Exception as error:  # noqa: BLE001, any error is a figure
            # The release of a held lock is behind the window, and all are released at once.
            if self.workload["what"] == "held" and self.over.is_set():
                return
            self.errors.append(f"{type(error).__name__}: {error}")

    async def hold(self, task):
        """Holds a lock until the window is over."""

        async def body():
            self.set_up.append(task)
            await self.tasks.reach(self.over)

        await self.attempt(self.peer.section(self.request(task), body))

    async def wait(self, task, record):
        """Waits for a lock until the window is over, and takes it."""

        async def body():
            record.grants = 1

        self.set_up.append(task)
        await self.attempt(self.peer.section(self.request(task), body))

    async def warm_up(self, task):
        """Runs a section under a name of the task's own, so that scripts are loaded and connections are open."""

        async def body():
            pass

        name = f"{self.workload['prefix']}:warm:{self.workload['index']}:{task}"
        await self.attempt(self.peer.section(replace(self.request(task), name=name), body))
        self.set_up.append(task)

    async def contend(self, task, record):
        """Runs one section after the other until the window is over."""
        await self.warm_up(task)
        await self.tasks.reach(self.window)
        while now() < self.deadline:
            await self.attempt(self.one_section(task, record))

    async def take_turns(self, task, record):
        """Runs a section whenever the last section was one of the other process."""
        await self.warm_up(task)
        await self.tasks.reach(self.window)
        while now() < self.deadline:
            if self.exclusion.is_our_turn():
                await self.attempt(self.one_section(task, record))
            else:
                await self.tasks.pause(LOOK)

    async def one_section(self, task, record):
        granted = left = 0

        async def body():
            nonlocal granted, left
            granted = now()
            self.exclusion.enter()
            # A section that begins after the window only lets the next waiter pass.
            if self.workload["section_us"] and granted < self.deadline:
                await self.tasks.pause(self.workload["section_us"] / 1e6)
            self.exclusion.leave()
            left = now()

        asked = now()
        await self.peer.section(self.request(task), body)
        record.latency.append(granted - asked + now() - left)
        record.wait.append(granted - asked)
        record.grants += granted < self.deadline
        if self.workload["what"] == "handover":
            record.holds.append((granted, left))
