package leasehold.peers;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** The conversation with the verb: lines on standard input and output. bench/peers/README.md describes them. */
public final class Main {
    private final BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private Main() {
    }

    /**
     * Runs the workloads of standard input against the server whose URL is the first argument.
     *
     * @param arguments the URL
     * @throws Exception for a line that is no part of the contract, and a workload that cannot be set up
     */
    public static void main(String[] arguments) throws Exception {
        var verb = new Main();
        for (var line = verb.input.readLine(); line != null; line = verb.input.readLine()) {
            var rssBefore = Usage.rssKib();
            String figures;
            try (var run = new Run(Workload.parse(line), arguments[0])) {
                figures = run.toEnd(verb, rssBefore);
            }
            System.out.println(figures);
        }
        System.exit(0);
    }

    /** Writes a word and waits for another. */
    void exchange(String said, String wanted) throws IOException {
        System.out.println("\"" + said + "\"");
        var line = input.readLine();
        if (!("\"" + wanted + "\"").equals(line)) {
            throw new IOException("the verb wrote " + line + " in place of " + wanted);
        }
    }
}
