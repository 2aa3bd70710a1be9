package leasehold.plain;

import java.io.IOException;

/** The peer ShedLock with {@code safeUpdate}, which compares the value before it changes a key. */
final class SafeShedLock {
    private SafeShedLock() {}

    public static void main(String[] arguments) throws IOException {
        ShedLock.serve(arguments, true);
    }
}
