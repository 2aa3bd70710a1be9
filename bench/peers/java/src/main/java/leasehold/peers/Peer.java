package leasehold.peers;

import java.util.concurrent.CompletionStage;
import java.util.function.Supplier;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson, with its asynchronous API. An owner is a number in place of a thread.
 */
final class Peer implements AutoCloseable {
    /** The default, 5, is below the number of locks that a workload waits for. */
    private static final int SUBSCRIPTIONS = 1_000;

    private final RedissonClient client;
    private final Workload workload;

    Peer(String url, Workload workload) {
        this.workload = workload;
        var config = new Config().setLockWatchdogTimeout(workload.leaseMs());
        config.useSingleServer().setAddress(url).setSubscriptionsPerConnection(SUBSCRIPTIONS);
        client = Redisson.create(config);
        if (workload.kind().equals("semaphore")) {
            for (var task = 0; task < workload.tasks(); task++) {
                client.getSemaphore(workload.lockName(task)).trySetPermits(workload.permits());
            }
        }
    }

    /** Acquires the lock of a task. The value is the release. */
    CompletionStage<Supplier<CompletionStage<Void>>> acquire(int task, long owner) {
        return acquire(workload.lockName(task), task, owner);
    }

    /** Acquires the lock of this name, of the kind that the task uses. */
    CompletionStage<Supplier<CompletionStage<Void>>> acquire(String name, int task, long owner) {
        if (workload.kind().equals("semaphore")) {
            var semaphore = client.getSemaphore(name);
            return semaphore.acquireAsync().thenApply(nothing -> semaphore::releaseAsync);
        }
        var lock = lock(name, isReader(task));
        return lock.lockAsync(owner).thenApply(nothing -> () -> lock.unlockAsync(owner));
    }

    /** Returns true for the tasks that read. One task of four writes. */
    boolean isReader(int task) {
        return workload.kind().equals("rw") && task % 4 != 0;
    }

    private RLock lock(String name, boolean isReader) {
        return switch (workload.kind()) {
            case "fair" -> client.getFairLock(name);
            case "rw" -> isReader ? client.getReadWriteLock(name).readLock() : client.getReadWriteLock(name).writeLock();
            default -> client.getLock(name);
        };
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
