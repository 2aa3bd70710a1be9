package leasehold.interop;

import org.redisson.api.RBucket;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * What is done in critical sections: changes of plain keys that come out wrong unless nobody else is inside.
 *
 * <p>The keys hold decimal text, so that peers in other languages can do the same to them.
 */
final class Sections {
    private final RBucket<String> number;
    private final RBucket<String> lastToken;

    Sections(RedissonClient redisson, String key) {
        number = redisson.getBucket(key, StringCodec.INSTANCE);
        lastToken = redisson.getBucket(key + ":token", StringCodec.INSTANCE);
    }

    /** Adds one in two steps; an addition is lost when another comes in between. */
    void count() {
        number.set(String.valueOf(read(number) + 1));
    }

    /** Adds two in two visible steps, so that the number is odd for as long as somebody writes. */
    void write() {
        long before = read(number);
        require(before % 2 == 0, "a writer found another one inside at " + before);
        number.set(String.valueOf(before + 1));
        long within = read(number);
        require(within == before + 1, "a writer wrote " + (before + 1) + " and found " + within);
        number.set(String.valueOf(before + 2));
    }

    /** Looks twice, and must see no writer. */
    void read() {
        long first = read(number);
        require(first % 2 == 0, "a reader found a writer inside at " + first);
        long second = read(number);
        require(first == second, "a reader saw " + first + " become " + second);
    }

    /** Notes the token of a section; each must be larger than all before. */
    void note(long token) {
        long last = read(lastToken);
        require(token > last, "the token " + token + " came after " + last);
        lastToken.set(String.valueOf(token));
    }

    private static long read(RBucket<String> bucket) {
        String text = bucket.get();
        return text == null ? 0 : Long.parseLong(text);
    }

    private static void require(boolean condition, String otherwise) {
        if (!condition) {
            throw new IllegalStateException(otherwise);
        }
    }
}
