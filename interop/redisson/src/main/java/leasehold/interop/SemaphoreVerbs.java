package leasehold.interop;

import java.time.Duration;
import org.redisson.api.RSemaphore;

/** {@code semaphore VERB NAME [N] [wait=MS]}. */
final class SemaphoreVerbs implements Verbs {
    private final Clients clients;

    SemaphoreVerbs(Clients clients) {
        this.clients = clients;
    }

    @Override
    public Object run(Command command) throws InterruptedException {
        RSemaphore semaphore = clients.of(command).getSemaphore(command.word(0));
        switch (command.verb()) {
            case "set" -> {
                int permits = command.number(1);
                return command.has("lease")
                        ? semaphore.trySetPermits(permits, Duration.ofMillis(command.lease()))
                        : semaphore.trySetPermits(permits);
            }
            case "acquire" -> semaphore.acquire(command.number(1, 1));
            case "try" -> {
                int permits = command.number(1, 1);
                return command.has("wait")
                        ? semaphore.tryAcquire(permits, Duration.ofMillis(command.millis("wait", 0)))
                        : semaphore.tryAcquire(permits);
            }
            case "release" -> semaphore.release(command.number(1, 1));
            case "release-if-exists" -> {
                return semaphore.releaseIfExists(command.number(1, 1));
            }
            case "add" -> semaphore.addPermits(command.number(1));
            case "drain" -> {
                return semaphore.drainPermits();
            }
            case "available" -> {
                return semaphore.availablePermits();
            }
            case "delete" -> {
                return semaphore.delete();
            }
            default -> throw command.unknown();
        }
        return null;
    }
}
