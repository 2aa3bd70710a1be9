package leasehold.peers;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** The figures of one task, and its sections, one after the other. */
final class Task {
    final CompletableFuture<Void> end = new CompletableFuture<>();
    final List<double[]> holds = new ArrayList<>();
    volatile long grants;

    private final Run run;
    private final int number;
    private long[] latency = new long[1_024];
    private long[] wait = new long[1_024];
    private int sections;

    Task(Run run, int number) {
        this.run = run;
        this.number = number;
    }

    /** Runs a section, and then the next, until the window is over. */
    void contend() {
        if (Usage.now() >= run.deadline) {
            end.complete(null);
        } else if (run.workload.what().equals("handover") && !run.exclusion.isOurTurn()) {
            run.timer.schedule(this::contend, 1, TimeUnit.MILLISECONDS);
        } else {
            section();
        }
    }

    private void section() {
        var asked = Usage.now();
        run.peer.acquire(number, run.owner(number)).whenComplete((release, error) -> {
            if (error != null) {
                run.failed(error);
                contend();
                return;
            }
            var granted = Usage.now();
            run.exclusion.enter(run.peer.isReader(number));
            Runnable leave = () -> {
                run.exclusion.leave(run.peer.isReader(number));
                var left = Usage.now();
                release.get().whenComplete((nothing, failure) -> {
                    if (failure != null) {
                        run.failed(failure);
                    }
                    add(asked, granted, left, Usage.now());
                    contend();
                });
            };
            // A section that begins after the window only lets the next waiter pass.
            if (run.workload.sectionUs() > 0 && granted < run.deadline) {
                run.timer.schedule(leave, run.workload.sectionUs(), TimeUnit.MICROSECONDS);
            } else {
                leave.run();
            }
        });
    }

    /** Takes the lock once. */
    void waitOnce() {
        run.peer.acquire(number, run.owner(number)).thenCompose(release -> {
            grants = 1;
            return release.get();
        }).whenComplete((nothing, error) -> {
            if (error != null) {
                run.failed(error);
            }
            end.complete(null);
        });
    }

    private void add(long asked, long granted, long left, long released) {
        if (sections == latency.length) {
            latency = Arrays.copyOf(latency, 2 * sections);
            wait = Arrays.copyOf(wait, 2 * sections);
        }
        latency[sections] = granted - asked + released - left;
        wait[sections] = granted - asked;
        sections += 1;
        if (granted < run.deadline) {
            // Sections of a task follow each other, so no other thread writes.
            grants = grants + 1;
        }
        if (run.workload.what().equals("handover")) {
            holds.add(new double[] {granted / 1e3, left / 1e3});
        }
    }

    long[] latency() {
        return Arrays.copyOf(latency, sections);
    }

    long[] waits() {
        return Arrays.copyOf(wait, sections);
    }
}
