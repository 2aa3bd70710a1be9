"""The conversation with the verb: lines on standard input and output."""

import json
import os
import sys

from contender.workloads import Run


def serve(peer, tasks):
    """Runs the workloads of standard input against the server whose URL is the first argument.

    `peer` has `refusal(workload)`, which returns the reason why it cannot run a workload, `connect(url, workload)`,
    `section(request, body)` and `close()`. The last three are coroutines.
    """
    tasks.run(_serve(peer, tasks))
    sys.stdout.flush()
    # Threads that a library left behind do not keep the process.
    os._exit(0)


async def _serve(peer, tasks):
    verb = Verb(tasks)
    while line := await tasks.read_line():
        workload = json.loads(line)
        if reason := peer.refusal(workload):
            verb.write({"unsupported": reason})
        else:
            verb.write(await Run(workload, peer, tasks).to_end(sys.argv[1], verb))


class Verb:
    """The verb at the other end of the pipes."""

    def __init__(self, tasks):
        self.tasks = tasks

    def write(self, value):
        """Writes a line."""
        print(json.dumps(value), flush=True)

    async def exchange(self, said, wanted):
        """Writes a word and waits for another."""
        self.write(said)
        line = (await self.tasks.read_line()).strip()
        if line != json.dumps(wanted):
            raise RuntimeError(f"the verb wrote {line} in place of {wanted}")
