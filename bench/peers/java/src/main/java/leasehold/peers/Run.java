package leasehold.peers;

import java.io.IOException;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** One workload. */
final class Run implements AutoCloseable {
    /** The most acquires of the set-up at one time. More of them wait for a connection longer than Redisson allows. */
    private static final int AT_ONCE = 256;

    final Workload workload;
    final Peer peer;
    final Exclusion exclusion;
    final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
    volatile long deadline;

    private final CompletableFuture<Void> over = new CompletableFuture<>();
    private final AtomicLong errors = new AtomicLong();
    private final AtomicReference<String> firstError = new AtomicReference<>();

    Run(Workload workload, String url) throws IOException {
        this.workload = workload;
        this.peer = new Peer(url, workload);
        this.exclusion = new Exclusion(workload);
    }

    /** Runs the workload and returns its figures. */
    String toEnd(Main verb, long rssBefore) throws Exception {
        var holders = hold();
        var count = workload.what().equals("held") ? 0 : workload.tasks();
        var tasks = IntStream.range(0, count).mapToObj(number -> new Task(this, number)).toList();
        warmUp(count);
        if (workload.what().equals("idle")) {
            tasks.forEach(Task::waitOnce);
        }
        verb.exchange("ready", "go");
        var began = Usage.now();
        var cpu = Usage.cpuUs();
        deadline = began + (long) (workload.seconds() * 1e9);
        if (!workload.what().equals("idle")) {
            tasks.forEach(task -> timer.execute(task::contend));
        }
        Thread.sleep((long) (workload.seconds() * 1e3));
        var elapsed = (Usage.now() - began) / 1e3;
        cpu = Usage.cpuUs() - cpu;
        var rss = Usage.rssKib();
        verb.exchange("end", "finish");
        var released = Usage.now();
        over.complete(null);
        var isServed = untilEnded(tasks);
        var drain = workload.what().equals("idle") && isServed ? String.valueOf((Usage.now() - released) / 1e3) : "null";
        CompletableFuture.allOf(holders.toArray(CompletableFuture[]::new)).get();
        return String.format(Locale.ROOT,
                "{\"elapsed_us\":%f,\"cpu_us\":%f,\"rss_kib\":%d,\"rss_before_kib\":%d,\"drain_us\":%s,%s}", elapsed, cpu,
                rss, rssBefore, drain, sum(tasks));
    }

    /** Waits for the tasks. Returns false if waiters of an idle workload were not served in time. */
    private boolean untilEnded(List<Task> tasks) throws Exception {
        var all = CompletableFuture.allOf(tasks.stream().map(task -> task.end).toArray(CompletableFuture[]::new));
        if (!workload.what().equals("idle")) {
            all.get();
            return true;
        }
        try {
            all.get((long) (workload.drainSeconds() * 1e3), TimeUnit.MILLISECONDS);
            return true;
        } catch (TimeoutException late) {
            return false;
        }
    }

    private String sum(List<Task> tasks) {
        var perTask = tasks.stream().map(task -> String.valueOf(task.grants)).collect(Collectors.joining(","));
        var holds = tasks.stream().flatMap(task -> task.holds.stream())
                .map(hold -> String.format(Locale.ROOT, "[%f,%f]", hold[0], hold[1])).collect(Collectors.joining(","));
        var error = firstError.get() == null ? "null" : "\"" + firstError.get().replaceAll("[^ -!#-\\[\\]-~]", "?") + "\"";
        return String.format(Locale.ROOT,
                "\"grants\":%d,\"latency\":%s,\"wait\":%s,\"per_task\":[%s],\"violations\":%d,\"errors\":%d,"
                        + "\"error\":%s,\"holds\":[%s]",
                tasks.stream().mapToLong(task -> task.grants).sum(), Usage.spread(all(tasks, Task::latency)),
                Usage.spread(all(tasks, Task::waits)), perTask, exclusion.violations(), errors.get(), error, holds);
    }

    private static long[] all(List<Task> tasks, Function<Task, long[]> values) {
        return tasks.stream().map(values).flatMapToLong(java.util.Arrays::stream).toArray();
    }

    /** Acquires the locks that are held until the window is over. Returns when all are held. */
    private List<CompletableFuture<Void>> hold() throws InterruptedException {
        var slots = new Semaphore(AT_ONCE);
        var holders = new java.util.ArrayList<CompletableFuture<Void>>();
        for (var number = 0; number < workload.holders(); number++) {
            slots.acquire();
            // Owners of holders are below those of tasks.
            var acquired = peer.acquire(number, number + 1L).whenComplete((release, error) -> slots.release());
            holders.add(acquired.thenCompose(release -> over.thenCompose(nothing -> release.get()))
                    .exceptionally(error -> {
                        // The release of a held lock is behind the window, and all are released at once.
                        if (!workload.what().equals("held") || !over.isDone()) {
                            failed(error);
                        }
                        return null;
                    }).toCompletableFuture());
        }
        slots.acquire(AT_ONCE);
        if (firstError.get() != null) {
            throw new IllegalStateException("the set-up failed: " + firstError.get());
        }
        return holders;
    }

    /** Runs a section of each task under a name of its own, so that scripts are loaded and connections are open. */
    private void warmUp(int tasks) throws Exception {
        // The permits of such a semaphore are not set.
        if (workload.kind().equals("semaphore") || workload.what().equals("idle")) {
            return;
        }
        var sections = IntStream.range(0, tasks).mapToObj(number -> {
            var name = workload.prefix() + ":warm:" + workload.index() + ":" + number;
            return peer.acquire(name, number, owner(number)).thenCompose(release -> release.get()).toCompletableFuture();
        });
        CompletableFuture.allOf(sections.toArray(CompletableFuture[]::new)).get();
    }

    /** Returns the owner of a task, different from those of the holders. */
    long owner(int number) {
        return 1L + workload.holders() + number;
    }

    void failed(Throwable error) {
        errors.incrementAndGet();
        firstError.compareAndSet(null, error.toString());
    }

    @Override
    public void close() throws IOException {
        timer.shutdownNow();
        peer.close();
        exclusion.close();
    }
}
