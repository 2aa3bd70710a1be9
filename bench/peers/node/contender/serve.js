// The conversation with the verb: lines on standard input and output. bench/peers/README.md describes them.

import { createInterface } from 'node:readline';

import { Run } from './workloads.js';

/**
 * Runs the workloads of standard input against the server whose URL is the first argument.
 *
 * `refusal(workload)` returns the reason why the peer cannot run a workload. `connect(url, workload)` returns a peer
 * with `section(request, body)` and `close()`.
 */
export async function serve({ refusal, connect }) {
  const verb = new Verb();
  for (let line = await verb.read(); line !== undefined; line = await verb.read()) {
    const workload = JSON.parse(line);
    const reason = refusal(workload);
    if (reason) {
      verb.write({ unsupported: reason });
    } else {
      verb.write(await new Run(workload, connect).toEnd(process.argv[2], verb));
    }
  }
  process.exit(0);
}

/** The verb at the other end of the pipes. */
class Verb {
  #lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

  async read() {
    const { value, done } = await this.#lines.next();
    return done ? undefined : value.trim();
  }

  write(value) {
    process.stdout.write(`${JSON.stringify(value)}\n`);
  }

  /** Writes a word and waits for another. */
  async exchange(said, wanted) {
    this.write(said);
    const line = await this.read();
    if (line !== JSON.stringify(wanted)) {
      throw new Error(`the verb wrote ${line} in place of ${wanted}`);
    }
  }
}
