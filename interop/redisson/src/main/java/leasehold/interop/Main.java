package leasehold.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * Does with the real Redisson what stdin says: one command in each line, one answer in each line of stdout.
 *
 * <p>A command is {@code ID OBJECT VERB words... option=value...}, and its answer {@code ID ok [value]} or
 * {@code ID error Class message}, with spaces in the message escaped. It runs on the thread that its option {@code thread}
 * names, after the earlier commands of that thread and beside those of all others; it is answered when it has ended, so
 * answers come in any order. The end of stdin ends the process.
 */
public final class Main {
    private final PrintStream out;
    private final Workers workers = new Workers();
    private final Map<String, Verbs> objects;

    private Main(PrintStream out) {
        Clients clients = new Clients();
        this.out = out;
        this.objects = Map.of(
                "client", new ClientVerbs(clients),
                "lock", new LockVerbs(clients),
                "semaphore", new SemaphoreVerbs(clients),
                "expirable", new ExpirableVerbs(clients),
                "latch", new LatchVerbs(clients),
                "crowd", new CrowdVerbs(clients));
    }

    public static void main(String[] arguments) throws IOException {
        // Line by line to whoever waits, and in one piece each.
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Main main = new Main(out);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (!line.isBlank()) {
                main.start(Command.parse(line));
            }
        }
        // Whoever drove us is gone. Locks are left to their leases, as when a process dies.
        Runtime.getRuntime().halt(0);
    }

    private void start(Command command) {
        workers.named(command.option("thread", "main")).execute(() -> answer(command.id(), run(command)));
    }

    private String run(Command command) {
        try {
            Verbs verbs = objects.get(command.object());
            if (verbs == null) {
                throw new IllegalArgumentException("no object is called " + command.object());
            }
            Object value = verbs.run(command);
            return value == null ? "ok" : "ok " + value;
        } catch (Throwable failure) {
            return "error " + failure.getClass().getSimpleName() + " " + escaped(String.valueOf(failure.getMessage()));
        }
    }

    private synchronized void answer(String id, String text) {
        out.print(id + " " + text + "\n");
        out.flush();
    }

    /** In one word: a backslash is doubled, a space becomes {@code \s}, an end of line {@code \n}. */
    private static String escaped(String message) {
        return message.replace("\\", "\\\\").replace(" ", "\\s").replace("\n", "\\n").replace("\r", "");
    }
}
