package leasehold.peers;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/** The processor time and the memory of this process, and the clock that all processes of the machine share. */
final class Usage {
    private Usage() {
    }

    /** Returns nanoseconds. On Linux, {@code nanoTime} is {@code CLOCK_MONOTONIC}. */
    static long now() {
        return System.nanoTime();
    }

    /** Returns the processor time of all threads in microseconds. */
    static double cpuUs() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e3;
    }

    /** Returns the resident memory in KiB. */
    static long rssKib() throws IOException {
        try (var lines = Files.lines(Path.of("/proc/self/status"))) {
            var line = lines.filter(each -> each.startsWith("VmRSS:")).findFirst().orElseThrow();
            return Long.parseLong(line.replaceAll("\\D", ""));
        }
    }

    /** Formats the distribution of durations, which this method sorts. */
    static String spread(long[] nanos) {
        java.util.Arrays.sort(nanos);
        return String.format(Locale.ROOT, "{\"p50\":%f,\"p99\":%f,\"max\":%f}", at(nanos, 0.5), at(nanos, 0.99),
                at(nanos, 1));
    }

    private static double at(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[(int) Math.round((sorted.length - 1) * share)] / 1e3;
    }
}
