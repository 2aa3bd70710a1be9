package leasehold.interop;

/** {@code client open|close|id|owner}. */
final class ClientVerbs implements Verbs {
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
            default -> throw command.unknown();
        }
        return null;
    }
}
