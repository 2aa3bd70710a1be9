package leasehold.plain;

import java.io.IOException;
import java.time.Duration;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

/**
 * The peer Spring Integration with the type {@code PUB_SUB_LOCK}, whose waiters sleep until a message, or until the expiry of
 * their own registry has passed. That is a minute by default, and less here, because a dead holder sends no message.
 */
final class SpringPubSub {
    private SpringPubSub() {}

    public static void main(String[] arguments) throws IOException {
        Spring.serve(arguments, RedisLockType.PUB_SUB_LOCK, Duration.ofSeconds(4));
    }
}
