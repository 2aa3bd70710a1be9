package leasehold.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RCountDownLatch;

/** {@code latch VERB NAME [N] [wait=MS]}. */
final class LatchVerbs implements Verbs {
    private final Clients clients;

    LatchVerbs(Clients clients) {
        this.clients = clients;
    }

    @Override
    public Object run(Command command) throws InterruptedException {
        RCountDownLatch latch = clients.of(command).getCountDownLatch(command.word(0));
        switch (command.verb()) {
            case "set" -> {
                return latch.trySetCount(command.number(1));
            }
            case "down" -> latch.countDown();
            case "await" -> {
                if (command.has("wait")) {
                    return latch.await(command.millis("wait", 0), MILLISECONDS);
                }
                latch.await();
                return true;
            }
            case "count" -> {
                return latch.getCount();
            }
            case "delete" -> {
                return latch.delete();
            }
            default -> throw command.unknown();
        }
        return null;
    }
}
