package leasehold.peers;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.atomic.AtomicLong;

/** The check that sections exclude each other, in this process and over all processes of the workload. */
final class Exclusion implements AutoCloseable {
    /** The weight of a writer, above the number of all readers. */
    private static final long WRITER = 1L << 32;

    private final Workload workload;
    private final FileChannel witness;
    private final AtomicLong inside = new AtomicLong();
    private final AtomicLong violations = new AtomicLong();
    private volatile FileLock lock;

    Exclusion(Workload workload) throws IOException {
        this.workload = workload;
        this.witness = workload.witness() == null ? null
                : FileChannel.open(Path.of(workload.witness()), StandardOpenOption.READ, StandardOpenOption.WRITE,
                        StandardOpenOption.CREATE);
    }

    /** Enters a section, and locks the witness without waiting. */
    void enter(boolean isReader) {
        if (!workload.isShared()) {
            return;
        }
        var others = inside.getAndAdd(weight(isReader));
        var alone = switch (workload.kind()) {
            case "semaphore" -> others < workload.permits();
            case "rw" -> isReader ? others < WRITER : others == 0;
            default -> others == 0;
        };
        if (!alone || !isWitnessed()) {
            violations.incrementAndGet();
        }
    }

    void leave(boolean isReader) {
        if (!workload.isShared()) {
            return;
        }
        try {
            if (lock != null) {
                lock.release();
                lock = null;
            }
        } catch (IOException error) {
            violations.incrementAndGet();
        }
        inside.addAndGet(-weight(isReader));
    }

    private boolean isWitnessed() {
        if (witness == null) {
            return true;
        }
        try {
            lock = witness.tryLock();
            witness.write(ByteBuffer.wrap(new byte[] {mark()}), 0);
            return lock != null;
        } catch (IOException | OverlappingFileLockException error) {
            return false;
        }
    }

    /** Returns true if the last section was one of another process, or if there was none. */
    boolean isOurTurn() {
        try {
            var last = ByteBuffer.allocate(1);
            witness.read(last, 0);
            return last.get(0) != mark();
        } catch (IOException error) {
            return true;
        }
    }

    long violations() {
        return violations.get();
    }

    @Override
    public void close() throws IOException {
        if (witness != null) {
            witness.close();
        }
    }

    private byte mark() {
        return (byte) ('0' + workload.index());
    }

    private long weight(boolean isReader) {
        return workload.kind().equals("rw") && !isReader ? WRITER : 1;
    }
}
