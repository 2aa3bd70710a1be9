package leasehold.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;

/** {@code lock VERB KIND NAME [wait=MS] [lease=MS]}; without a lease the watchdog renews. */
final class LockVerbs implements Verbs {
    private final Clients clients;

    LockVerbs(Clients clients) {
        this.clients = clients;
    }

    @Override
    public Object run(Command command) throws InterruptedException {
        RLock lock = clients.lock(command.client(), command.word(0), command.word(1));
        return switch (command.verb()) {
            case "acquire" -> acquire(lock, command);
            case "try" -> command.has("lease") ? lock.tryLock(0, command.lease(), MILLISECONDS) : lock.tryLock();
            case "release" -> {
                lock.unlock();
                yield null;
            }
            case "force" -> lock.forceUnlock();
            case "locked" -> lock.isLocked();
            case "held" -> lock.isHeldByCurrentThread();
            case "name" -> lock.getName();
            case "count" -> lock.getHoldCount();
            case "remaining" -> lock.remainTimeToLive();
            case "acquire-token" -> orNone(acquireToken(fenced(lock), command));
            case "try-token" -> orNone(fenced(lock).tryLockAndGetToken());
            case "token" -> orNone(fenced(lock).getToken());
            default -> throw command.unknown();
        };
    }

    /** Without {@code wait} for as long as it takes; with it, whether it was in time. */
    private static boolean acquire(RLock lock, Command command) throws InterruptedException {
        if (command.has("wait")) {
            return lock.tryLock(command.millis("wait", 0), command.lease(), MILLISECONDS);
        }
        lock.lock(command.lease(), MILLISECONDS);
        return true;
    }

    private static Long acquireToken(RFencedLock lock, Command command) {
        if (command.has("wait")) {
            return lock.tryLockAndGetToken(command.millis("wait", 0), command.lease(), MILLISECONDS);
        }
        return command.has("lease") ? lock.lockAndGetToken(command.lease(), MILLISECONDS) : lock.lockAndGetToken();
    }

    private static RFencedLock fenced(RLock lock) {
        if (lock instanceof RFencedLock fenced) {
            return fenced;
        }
        throw new IllegalArgumentException("only fenced locks have tokens");
    }

    private static Object orNone(Long token) {
        return token == null ? "none" : token;
    }
}
