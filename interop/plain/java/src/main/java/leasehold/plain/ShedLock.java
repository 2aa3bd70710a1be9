package leasehold.plain;

import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;

/**
 * The peer ShedLock with its defaults. The library does not wait, because a scheduler tries again at the next time of its
 * job. That is every 10 ms here.
 */
final class ShedLock implements Library<SimpleLock> {
    private static final String ENVIRONMENT = "prod";
    private static final long NEXT_TIME_MS = 10;

    private final LockProvider provider;

    private ShedLock(LockProvider provider) {
        this.provider = provider;
    }

    @Override
    public SimpleLock acquire(String name, Duration lease, boolean waits) throws InterruptedException {
        while (true) {
            var terms = new LockConfiguration(Instant.now(), name, lease, Duration.ZERO);
            Optional<SimpleLock> lock = provider.lock(terms);
            if (lock.isPresent() || !waits) {
                return lock.orElse(null);
            }
            Thread.sleep(NEXT_TIME_MS);
        }
    }

    @Override
    public String release(SimpleLock lock) {
        try {
            lock.unlock();
            return "silent";
        } catch (IllegalStateException error) {
            // A failed extension ends the lock.
            throw new NotOwned();
        }
    }

    @Override
    public SimpleLock extend(SimpleLock lock, Duration lease) {
        return lock.extend(lease, Duration.ZERO).orElseThrow(NotOwned::new);
    }

    static void serve(String[] arguments, boolean safeUpdate) throws IOException {
        Peer.serve(arguments, factory -> {
            var builder = new RedisLockProvider.Builder(factory).environment(ENVIRONMENT);
            return new ShedLock((safeUpdate ? builder.safeUpdate(true) : builder).build());
        });
    }

    public static void main(String[] arguments) throws IOException {
        serve(arguments, false);
    }
}
