package leasehold.peers;

import java.util.regex.Pattern;

/** A line that the verb writes. Its JSON is flat, and its texts have no escapes. */
record Workload(String what, String kind, int tasks, int names, int permits, long sectionUs, double seconds,
        double drainSeconds, long leaseMs, String prefix, int index, String witness) {

    static Workload parse(String line) {
        return new Workload(text(line, "what"), text(line, "kind"), (int) number(line, "tasks"),
                (int) number(line, "names"), (int) number(line, "permits"), (long) number(line, "section_us"),
                number(line, "seconds"), number(line, "drain_seconds"), (long) number(line, "lease_ms"), text(line, "prefix"),
                (int) number(line, "index"), text(line, "witness"));
    }

    /** Returns the name of the lock of a task. */
    String lockName(int task) {
        return switch (what) {
            case "pairs", "held" -> prefix + ":" + index + ":" + task;
            case "idle" -> prefix + ":" + task % names;
            default -> prefix;
        };
    }

    /** Returns true if all tasks use one lock. */
    boolean isShared() {
        return what.equals("hot") || what.equals("handover");
    }

    /** Returns the number of tasks that hold a lock from the set-up to the end. */
    int holders() {
        return switch (what) {
            case "held" -> tasks;
            case "idle" -> names;
            default -> 0;
        };
    }

    private static double number(String line, String field) {
        return Double.parseDouble(find(line, "\"" + field + "\":([-+.0-9eE]+)"));
    }

    private static String text(String line, String field) {
        return find(line, "\"" + field + "\":(?:\"([^\"]*)\"|null)");
    }

    private static String find(String line, String pattern) {
        var found = Pattern.compile(pattern).matcher(line);
        if (!found.find()) {
            throw new IllegalArgumentException("no " + pattern + " in " + line);
        }
        return found.group(1);
    }
}
