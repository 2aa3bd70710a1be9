package leasehold.interop;

import java.util.List;
import java.util.stream.Stream;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** The kinds of locks, by the words that commands use. */
final class Kinds {
    private Kinds() {
    }

    static RLock make(Clients clients, String client, String kind, String name) {
        RedissonClient redisson = clients.named(client);
        return switch (kind) {
            case "lock" -> redisson.getLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "fenced" -> redisson.getFencedLock(name);
            case "spin" -> redisson.getSpinLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            case "nonreentrant" -> redisson.getNonReentrantLock(name);
            case "nonreentrant-fair" -> redisson.getNonReentrantFairLock(name);
            case "group" -> redisson.getMultiLock(named(name)[0], List.of((Object[]) named(name)[1].split("\\+")));
            case "map-entry" -> redisson.getMap(named(name)[0], StringCodec.INSTANCE).getLock(named(name)[1]);
            case "multi" -> redisson.getMultiLock(members(clients, client, name));
            default -> throw new IllegalArgumentException("no kind of lock is called " + kind);
        };
    }

    /** A name of two parts: {@code group:value+value}, {@code map:key}. */
    private static String[] named(String name) {
        return name.split(":", 2);
    }

    /** Of a multi-lock, whose name is a list {@code kind:name,kind@client:name,...}. */
    private static RLock[] members(Clients clients, String client, String list) {
        return Stream.of(list.split(","))
                .map(member -> {
                    String[] parts = member.split(":", 2);
                    String[] kind = parts[0].split("@", 2);
                    return clients.lock(kind.length > 1 ? kind[1] : client, kind[0], parts[1]);
                })
                .toArray(RLock[]::new);
    }
}
