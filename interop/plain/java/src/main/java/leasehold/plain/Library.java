package leasehold.plain;

import java.time.Duration;

/** A library, with its held locks of type {@code L}. No method imitates what the library itself does not offer. */
interface Library<L> {
    /** The library reports that the lock is not held, or no longer. */
    final class NotOwned extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    /** The library has no such call. */
    final class Unsupported extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    /** Acquires a lock. One that is held elsewhere is awaited, or null. */
    L acquire(String name, Duration lease, boolean waits) throws InterruptedException;

    /** Releases a lock, and returns the word of the answer. */
    String release(L lock);

    /** Extends a lock, and returns the lock that replaces it. */
    L extend(L lock, Duration lease);
}
