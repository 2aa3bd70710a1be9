// Package contender is the contract of a contender, for Go: a peer implements Peer, and its main calls Serve.
//
// bench/peers/README.md describes the lines that a contender reads and writes.
package contender

import (
	"context"
	"fmt"
	"time"
)

// Workload is a line that the verb writes.
type Workload struct {
	What         string  `json:"what"`
	Kind         string  `json:"kind"`
	Tasks        int     `json:"tasks"`
	Names        int     `json:"names"`
	Permits      int     `json:"permits"`
	SectionUs    int64   `json:"section_us"`
	Seconds      float64 `json:"seconds"`
	DrainSeconds float64 `json:"drain_seconds"`
	LeaseMs      int64   `json:"lease_ms"`
	Prefix       string  `json:"prefix"`
	Index        int     `json:"index"`
	Processes    int     `json:"processes"`
	Witness      *string `json:"witness"`
}

// Lease is the lease of each hold.
func (w *Workload) Lease() time.Duration {
	return time.Duration(w.LeaseMs) * time.Millisecond
}

// Window is the time in which grants count.
func (w *Workload) Window() time.Duration {
	return time.Duration(w.Seconds * float64(time.Second))
}

// LockName is the name of the lock of a task.
func (w *Workload) LockName(task int) string {
	switch w.What {
	case "pairs", "held":
		return fmt.Sprintf("%s:%d:%d", w.Prefix, w.Index, task)
	case "idle":
		return fmt.Sprintf("%s:%d", w.Prefix, task%w.Names)
	default:
		return w.Prefix
	}
}

// Release releases a lock.
type Release func() error

// Peer is a library with a lock. The contract's other kinds of locks have no Go peer.
type Peer interface {
	// Acquire waits for the lock without a limit.
	Acquire(ctx context.Context, name string, lease time.Duration) (Release, error)
	Close()
}

// Maker makes a client for one workload.
type Maker func(url string, workload *Workload) (Peer, error)

// Spread is the distribution of a duration, in microseconds.
type Spread struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Figures is the line that ends a workload.
type Figures struct {
	Grants      int64        `json:"grants"`
	ElapsedUs   float64      `json:"elapsed_us"`
	Latency     Spread       `json:"latency"`
	Wait        Spread       `json:"wait"`
	PerTask     []int64      `json:"per_task"`
	CPUUs       float64      `json:"cpu_us"`
	RssKib      int64        `json:"rss_kib"`
	RssBeforeKb int64        `json:"rss_before_kib"`
	Violations  int64        `json:"violations"`
	Errors      int64        `json:"errors"`
	Error       *string      `json:"error"`
	DrainUs     *float64     `json:"drain_us"`
	Holds       [][2]float64 `json:"holds,omitempty"`
}
