package leasehold.interop;

import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.Semaphore;

/** {@code client open|close|id|owner|parked}. */
final class ClientVerbs implements Verbs {
    private static final Set<Thread.State> PARKED = EnumSet.of(Thread.State.WAITING, Thread.State.TIMED_WAITING);

    private final Clients clients;

    ClientVerbs(Clients clients) {
        this.clients = clients;
    }

    @Override
    public Object run(Command command) {
        switch (command.verb()) {
            case "open" -> clients.open(command.word(0), command);
            case "close" -> clients.close(command.word(0));
            case "id" -> {
                return clients.named(command.word(0)).getId();
            }
            case "owner" -> {
                // What a lock that this thread takes has in its hash.
                return clients.named(command.word(0)).getId() + ":" + Thread.currentThread().getId();
            }
            case "parked" -> {
                return isParked(command.word(0));
            }
            default -> throw command.unknown();
        }
        return null;
    }

    /**
     * Whether the thread of this name is parked in the semaphore of a channel, which a message opens.
     *
     * <p>A message that is for all waiters, as those of a read-write lock are, misses a thread that is not parked yet.
     */
    private static boolean isParked(String name) {
        return Thread.getAllStackTraces().entrySet().stream()
                .filter(entry -> entry.getKey().getName().equals(name))
                .anyMatch(entry -> PARKED.contains(entry.getKey().getState()) && isInSemaphore(entry.getValue()));
    }

    private static boolean isInSemaphore(StackTraceElement[] stack) {
        return Arrays.stream(stack).anyMatch(frame -> frame.getClassName().equals(Semaphore.class.getName()));
    }
}
