package contender

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// exclusion checks that sections exclude each other, in this process and over all processes of the workload.
type exclusion struct {
	inside     atomic.Int64
	violations atomic.Int64
	witness    *os.File
	mark       byte
	// shared is true if all tasks use one lock. Otherwise sections may overlap.
	shared bool
}

func newExclusion(workload *Workload) (*exclusion, error) {
	made := &exclusion{mark: '0' + byte(workload.Index),
		shared: workload.What == "hot" || workload.What == "handover"}
	if workload.Witness != nil {
		file, err := os.OpenFile(*workload.Witness, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		made.witness = file
	}
	return made, nil
}

// enter enters a section, and locks the witness without waiting.
func (e *exclusion) enter() {
	if !e.shared {
		return
	}
	alone := e.inside.Add(1) == 1
	if e.witness != nil {
		alone = unix.Flock(int(e.witness.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && alone
		if _, err := e.witness.WriteAt([]byte{e.mark}, 0); err != nil {
			alone = false
		}
	}
	if !alone {
		e.violations.Add(1)
	}
}

func (e *exclusion) leave() {
	if !e.shared {
		return
	}
	if e.witness != nil {
		_ = unix.Flock(int(e.witness.Fd()), unix.LOCK_UN)
	}
	e.inside.Add(-1)
}

// isOurTurn tells if the last section was one of another process, or if there was none.
func (e *exclusion) isOurTurn() bool {
	last := []byte{0}
	_, _ = e.witness.ReadAt(last, 0)
	return last[0] != e.mark
}

func (e *exclusion) close() {
	if e.witness != nil {
		_ = e.witness.Close()
	}
}
