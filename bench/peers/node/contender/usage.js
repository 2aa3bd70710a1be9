// The processor time and the memory of this process, and the clock that all processes of the machine share.

import { readFileSync } from 'node:fs';

/** Returns the time of CLOCK_MONOTONIC in microseconds. */
export function now() {
  const [seconds, nanos] = process.hrtime();
  return seconds * 1e6 + nanos / 1e3;
}

/** Returns the processor time of all threads in microseconds. */
export function cpuUs() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** Returns the resident memory in KiB. */
export function rssKib() {
  const line = readFileSync('/proc/self/status', 'utf8').match(/^VmRSS:\s+(\d+)/m);
  return line ? Number(line[1]) : 0;
}

/** Returns the distribution of durations. */
export function spread(durations) {
  const sorted = Float64Array.from(durations).sort();
  const at = (share) => (sorted.length === 0 ? 0 : sorted[Math.round((sorted.length - 1) * share)]);
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}
