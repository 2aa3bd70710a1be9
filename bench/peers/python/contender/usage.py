"""The processor time and the memory of this process, and the clock that all processes of the machine share."""

import re
import resource
import time
from pathlib import Path


def now():
    """Returns the time of CLOCK_MONOTONIC in microseconds."""
    return time.monotonic_ns() / 1e3


def cpu_us():
    """Returns the processor time of all threads in microseconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return (usage.ru_utime + usage.ru_stime) * 1e6


def rss_kib():
    """Returns the resident memory in KiB."""
    return int(re.search(r"^VmRSS:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)[1])


def spread(durations):
    """Returns the distribution of durations."""
    durations = sorted(durations)

    def at(share):
        return durations[round((len(durations) - 1) * share)] if durations else 0.0

    return {"p50": at(0.5), "p99": at(0.99), "max": at(1)}
