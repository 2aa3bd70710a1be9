"""The check that sections exclude each other, in this process and over all processes of the workload."""

import fcntl
import os


class Exclusion:
    """The sections that run, and the number of those that overlapped wrongly."""

    def __init__(self, workload):
        # Otherwise the tasks use different locks, and sections may overlap.
        self.is_shared = workload["what"] in ("hot", "handover")
        self.inside = 0
        self.violations = 0
        self.mark = str(workload["index"]).encode()
        witness = workload["witness"]
        self.witness = os.open(witness, os.O_RDWR | os.O_CREAT, 0o600) if witness else None

    def enter(self):
        """Enters a section, and locks the witness without waiting."""
        if not self.is_shared:
            return
        self.inside += 1
        alone = self.inside == 1
        if self.witness is not None:
            try:
                fcntl.flock(self.witness, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                alone = False
            os.pwrite(self.witness, self.mark, 0)
        if not alone:
            self.violations += 1

    def leave(self):
        """Leaves a section."""
        if not self.is_shared:
            return
        if self.witness is not None:
            fcntl.flock(self.witness, fcntl.LOCK_UN)
        self.inside -= 1

    def is_our_turn(self):
        """Returns true if the last section was one of another process, or if there was none."""
        return os.pread(self.witness, 1, 0) != self.mark

    def close(self):
        """Closes the witness."""
        if self.witness is not None:
            os.close(self.witness)
