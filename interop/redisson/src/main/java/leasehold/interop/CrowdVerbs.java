package leasehold.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/**
 * {@code crowd VERB ... key=KEY threads=N rounds=M [lease=MS]}: N new threads that go through M critical sections each.
 *
 * <p>Answers how many sections there were; for semaphores how many permits were out at once, at most.
 */
final class CrowdVerbs implements Verbs {
    private final Clients clients;

    CrowdVerbs(Clients clients) {
        this.clients = clients;
    }

    @Override
    public Object run(Command command) throws InterruptedException {
        RedissonClient redisson = clients.of(command);
        return switch (command.verb()) {
            case "lock" -> locked(redisson, command, command.word(0), command.word(1), Sections::count);
            case "readers" -> locked(redisson, command, "read", command.word(0), Sections::read);
            case "writers" -> locked(redisson, command, "write", command.word(0), Sections::write);
            case "semaphore" -> semaphore(redisson, command);
            case "expirable" -> expirable(redisson, command);
            default -> throw command.unknown();
        };
    }

    private long locked(RedissonClient redisson, Command command, String kind, String name, Consumer<Sections> inside)
            throws InterruptedException {
        Sections sections = new Sections(redisson, command.option("key"));
        RLock lock = clients.lock(command.client(), kind, name);
        long lease = command.lease();
        return gather(command, () -> {
            Long token = null;
            if (lock instanceof RFencedLock fenced) {
                token = fenced.lockAndGetToken();
            } else {
                lock.lock(lease, MILLISECONDS);
            }
            try {
                inside.accept(sections);
                if (token != null) {
                    sections.note(token);
                }
            } finally {
                lock.unlock();
            }
        });
    }

    private static long semaphore(RedissonClient redisson, Command command) throws InterruptedException {
        RSemaphore semaphore = redisson.getSemaphore(command.word(0));
        int permits = command.number(1, 1);
        Inside inside = new Inside(redisson.getAtomicLong(command.option("key")));
        gather(command, () -> {
            semaphore.acquire(permits);
            try {
                inside.visit(permits);
            } finally {
                semaphore.release(permits);
            }
        });
        return inside.most.get();
    }

    private static long expirable(RedissonClient redisson, Command command) throws InterruptedException {
        RPermitExpirableSemaphore semaphore = redisson.getPermitExpirableSemaphore(command.word(0));
        int permits = command.number(1, 1);
        Inside inside = new Inside(redisson.getAtomicLong(command.option("key")));
        gather(command, () -> {
            List<String> ids = semaphore.acquire(permits, command.lease(), MILLISECONDS);
            try {
                inside.visit(permits);
            } finally {
                semaphore.release(ids);
            }
        });
        return inside.most.get();
    }

    /** Counts who is inside in a key of the server, and remembers the largest number seen. */
    private record Inside(RAtomicLong now, AtomicLong most) {
        Inside(RAtomicLong now) {
            this(now, new AtomicLong());
        }

        void visit(int permits) {
            most.accumulateAndGet(now.addAndGet(permits), Math::max);
            now.addAndGet(-permits);
        }
    }

    private interface Section {
        void enter() throws Exception;
    }

    /** Has the threads go through their sections, and returns how many there were once all have. */
    private static long gather(Command command, Section section) throws InterruptedException {
        int rounds = command.count("rounds");
        List<FutureTask<Void>> members = new ArrayList<>();
        for (int i = command.count("threads"); i > 0; i--) {
            FutureTask<Void> member = new FutureTask<>(() -> {
                for (int round = 0; round < rounds; round++) {
                    section.enter();
                }
                return null;
            });
            members.add(member);
            Thread thread = new Thread(member, "crowd");
            thread.setDaemon(true);
            thread.start();
        }
        for (FutureTask<Void> member : members) {
            try {
                member.get();
            } catch (ExecutionException failure) {
                Throwable cause = failure.getCause();
                throw new IllegalStateException(cause.getClass().getSimpleName() + ": " + cause.getMessage(), cause);
            }
        }
        return (long) rounds * members.size();
    }
}
