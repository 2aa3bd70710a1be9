package leasehold.plain;

import java.io.IOException;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;
import org.springframework.integration.support.locks.DistributedLock;

/**
 * The peer Spring Integration: {@code RedisLockRegistry} with its defaults, the type {@code SPIN_LOCK} and a pause of 100 ms
 * between two attempts. A thread that holds a lock enters it again.
 */
final class Spring implements Library<Spring.Named> {
    private static final String REGISTRY = "registry";

    private final RedisLockRegistry registry;

    /** A lock with its name, which an extension needs. */
    record Named(String name, DistributedLock lock) {}

    private Spring(RedisLockRegistry registry) {
        this.registry = registry;
    }

    @Override
    public Named acquire(String name, Duration lease, boolean waits) throws InterruptedException {
        var lock = registry.obtain(name);
        if (waits) {
            lock.lock(lease);
        } else if (!lock.tryLock(Duration.ZERO, lease)) {
            return null;
        }
        return new Named(name, lock);
    }

    @Override
    public String release(Named lock) {
        try {
            lock.lock().unlock();
            return "ok";
        } catch (IllegalStateException | ConcurrentModificationException error) {
            throw new NotOwned();
        }
    }

    @Override
    public Named extend(Named lock, Duration lease) {
        try {
            registry.renewLock(lock.name(), lease);
            return lock;
        } catch (IllegalStateException error) {
            throw new NotOwned();
        }
    }

    static void serve(String[] arguments, RedisLockType type, Duration expireAfter) throws IOException {
        Peer.serve(arguments, factory -> {
            var registry = new RedisLockRegistry(factory, REGISTRY, expireAfter);
            registry.setRedisLockType(type);
            return new Spring(registry);
        });
    }

    public static void main(String[] arguments) throws IOException {
        serve(arguments, RedisLockType.SPIN_LOCK, Duration.ofMinutes(1));
    }
}
