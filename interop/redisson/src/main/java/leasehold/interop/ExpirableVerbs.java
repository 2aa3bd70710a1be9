package leasehold.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.List;
import org.redisson.api.RPermitExpirableSemaphore;

/** {@code expirable VERB NAME [N | ID...] [wait=MS] [lease=MS]}; lists of ids have commas, and an empty one is "none". */
final class ExpirableVerbs implements Verbs {
    private final Clients clients;

    ExpirableVerbs(Clients clients) {
        this.clients = clients;
    }

    @Override
    public Object run(Command command) throws InterruptedException {
        RPermitExpirableSemaphore semaphore = clients.of(command).getPermitExpirableSemaphore(command.word(0));
        switch (command.verb()) {
            case "set" -> {
                return semaphore.trySetPermits(command.number(1));
            }
            case "set-permits" -> semaphore.setPermits(command.number(1));
            case "add" -> semaphore.addPermits(command.number(1));
            case "acquire" -> {
                return listed(semaphore.acquire(command.number(1, 1), command.lease(), MILLISECONDS));
            }
            case "try" -> {
                int permits = command.number(1, 1);
                return listed(semaphore.tryAcquire(permits, command.millis("wait", 0), command.lease(), MILLISECONDS));
            }
            case "release" -> semaphore.release(command.word(1));
            case "try-release" -> {
                List<String> ids = List.of(command.word(1).split(","));
                return ids.size() == 1 ? semaphore.tryRelease(ids.get(0)) : semaphore.tryRelease(ids);
            }
            case "available" -> {
                return semaphore.availablePermits();
            }
            case "acquired" -> {
                return semaphore.acquiredPermits();
            }
            case "permits" -> {
                return semaphore.getPermits();
            }
            case "update-lease" -> {
                return semaphore.updateLeaseTime(command.word(1), Long.parseLong(command.option("lease")), MILLISECONDS);
            }
            case "lease" -> {
                return semaphore.getLeaseTime(command.word(1));
            }
            case "delete" -> {
                return semaphore.delete();
            }
            default -> throw command.unknown();
        }
        return null;
    }

    private static String listed(List<String> ids) {
        return ids.isEmpty() ? "none" : String.join(",", ids);
    }
}
