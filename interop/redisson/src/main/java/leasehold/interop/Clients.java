package leasehold.interop;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ShardedSubscriptionMode;

/** The Redisson clients of this process, by name; each is a peer with an identity of its own. */
final class Clients {
    private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();
    private final Map<String, RLock> locks = new ConcurrentHashMap<>();

    /** Makes a client and gives it this name. */
    void open(String name, Command command) {
        RedissonClient client = Redisson.create(config(command));
        if (clients.putIfAbsent(name, client) != null) {
            client.shutdown();
            throw new IllegalArgumentException("there is a client called " + name);
        }
    }

    void close(String name) {
        RedissonClient client = named(name);
        clients.remove(name);
        locks.keySet().removeIf(key -> key.startsWith(name + " "));
        client.shutdown();
    }

    RedissonClient named(String name) {
        RedissonClient client = clients.get(name);
        if (client == null) {
            throw new IllegalArgumentException("no client is called " + name);
        }
        return client;
    }

    RedissonClient of(Command command) {
        return named(command.client());
    }

    /**
     * The lock of this kind and name.
     *
     * <p>Always the same object: Redisson's remember the lease that they were last given, and apply it again.
     */
    RLock lock(String client, String kind, String name) {
        // Not computeIfAbsent, since a multi-lock asks for its members while it is made.
        String key = client + " " + kind + " " + name;
        RLock known = locks.get(key);
        if (known != null) {
            return known;
        }
        RLock made = Kinds.make(this, client, kind, name);
        RLock earlier = locks.putIfAbsent(key, made);
        return earlier == null ? made : earlier;
    }

    private static Config config(Command command) {
        Config config = new Config();
        if (command.has("watchdog")) {
            config.setLockWatchdogTimeout(command.millis("watchdog", 0));
        }
        if (command.has("fairwait")) {
            config.setFairLockWaitTimeout(command.millis("fairwait", 0));
        }
        // Few threads and connections to start with, so that a client is there quickly; the pools grow.
        config.setNettyThreads(4);
        if (command.has("cluster")) {
            useCluster(config, command);
        } else if (command.has("sentinels")) {
            config.useSentinelServers()
                    .addSentinelAddress(command.option("sentinels").split(","))
                    .setMasterName(command.option("service"))
                    .setMasterConnectionMinimumIdleSize(1)
                    .setSlaveConnectionMinimumIdleSize(1);
        } else {
            config.useSingleServer().setAddress(command.option("url")).setConnectionMinimumIdleSize(1);
        }
        return config;
    }

    private static void useCluster(Config config, Command command) {
        ClusterServersConfig cluster = config.useClusterServers()
                .addNodeAddress(command.option("cluster").split(","))
                .setMasterConnectionMinimumIdleSize(1)
                .setSlaveConnectionMinimumIdleSize(1);
        // Releases before 3.29.0 have no such setting.
        if (command.has("sharded")) {
            cluster.setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(command.option("sharded")));
        }
    }
}
