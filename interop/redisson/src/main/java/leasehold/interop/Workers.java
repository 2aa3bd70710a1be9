package leasehold.interop;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

/**
 * Threads with names, each of which does one thing after the other for as long as the process lives.
 *
 * <p>Redisson's owners are threads, so a lock that a named thread has taken can be given back by its name.
 */
final class Workers {
    private final Map<String, Executor> workers = new ConcurrentHashMap<>();

    Executor named(String name) {
        return workers.computeIfAbsent(name, Workers::start);
    }

    private static Executor start(String name) {
        return Executors.newSingleThreadExecutor(work -> {
            Thread thread = new Thread(work, name);
            thread.setDaemon(true);
            return thread;
        });
    }
}
