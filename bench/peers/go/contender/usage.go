package contender

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// now is the time of CLOCK_MONOTONIC in nanoseconds, which all processes of the machine share.
func now() int64 {
	var time unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &time) != nil {
		return 0
	}
	return time.Nano()
}

// cpuUs is the processor time of all threads in microseconds.
func cpuUs() float64 {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e3
}

// rssKib is the resident memory in KiB.
func rssKib() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib
		}
	}
	return 0
}

// spread is the distribution of durations in nanoseconds.
func spread(nanos []int64) Spread {
	if len(nanos) == 0 {
		return Spread{}
	}
	slices.Sort(nanos)
	at := func(share float64) float64 {
		return float64(nanos[int(float64(len(nanos)-1)*share+0.5)]) / 1e3
	}
	return Spread{P50: at(0.5), P99: at(0.99), Max: at(1)}
}
