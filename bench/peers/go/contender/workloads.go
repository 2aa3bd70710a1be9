package contender

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// look is the pause between two looks at the witness, and at tasks that set up.
const look = time.Millisecond

// atOnce is the most acquires of the set-up at one time. Thousands at once run into the time limits of some libraries.
const atOnce = 256

// run is one workload of one peer.
type run struct {
	peer      Peer
	workload  *Workload
	exclusion *exclusion
	// window is closed when the window begins, and over when it ends. The deadline is set before.
	window   chan struct{}
	over     chan struct{}
	deadline int64
	setUp    atomic.Int64
	errors   atomic.Int64
	first    atomic.Pointer[string]
	records  []record
	tasks    sync.WaitGroup
	holders  sync.WaitGroup
}

// record has the figures of one task.
type record struct {
	// grants is atomic, because waiters that were not served in time may be served later.
	grants  atomic.Int64
	latency []int64
	wait    []int64
	holds   [][2]float64
}

func runWorkload(url string, workload *Workload, maker Maker, verb *verb) (*Figures, error) {
	before := rssKib()
	peer, err := maker(url, workload)
	if err != nil {
		return nil, err
	}
	defer peer.Close()
	exclusion, err := newExclusion(workload)
	if err != nil {
		return nil, err
	}
	defer exclusion.close()
	r := &run{peer: peer, workload: workload, exclusion: exclusion,
		window: make(chan struct{}), over: make(chan struct{})}
	if err := r.start(); err != nil {
		return nil, err
	}
	if err := verb.exchange("ready", "go"); err != nil {
		return nil, err
	}
	began, cpu := now(), cpuUs()
	r.deadline = began + workload.Window().Nanoseconds()
	close(r.window)
	time.Sleep(workload.Window())
	figures := &Figures{ElapsedUs: float64(now()-began) / 1e3, CPUUs: cpuUs() - cpu, RssKib: rssKib(), RssBeforeKb: before}
	if err := verb.exchange("end", "finish"); err != nil {
		return nil, err
	}
	released := now()
	close(r.over)
	if r.untilEnded() && workload.What == "idle" {
		drain := float64(now()-released) / 1e3
		figures.DrainUs = &drain
	}
	r.holders.Wait()
	r.sum(figures)
	return figures, nil
}

// untilEnded waits for the tasks. It returns false if waiters of an idle workload were not served in time.
func (r *run) untilEnded() bool {
	ended := make(chan struct{})
	go func() {
		r.tasks.Wait()
		close(ended)
	}()
	var limit <-chan time.Time
	if r.workload.What == "idle" {
		limit = time.After(time.Duration(r.workload.DrainSeconds * float64(time.Second)))
	}
	select {
	case <-ended:
		return true
	case <-limit:
		return false
	}
}

func (r *run) sum(figures *Figures) {
	var latency, wait []int64
	figures.PerTask = []int64{}
	for task := range r.records {
		record := &r.records[task]
		figures.Grants += record.grants.Load()
		figures.PerTask = append(figures.PerTask, record.grants.Load())
		figures.Holds = append(figures.Holds, record.holds...)
		latency, wait = append(latency, record.latency...), append(wait, record.wait...)
	}
	figures.Latency, figures.Wait = spread(latency), spread(wait)
	figures.Violations, figures.Errors = r.exclusion.violations.Load(), r.errors.Load()
	figures.Error = r.first.Load()
}

// start starts the holders and the tasks. It returns when the holders hold and the waiters have started.
func (r *run) start() error {
	holders, tasks, body := 0, r.workload.Tasks, r.contend
	switch r.workload.What {
	case "held":
		holders, tasks = r.workload.Tasks, 0
	case "idle":
		holders, body = r.workload.Names, r.wait
	case "handover":
		body = r.takeTurns
	}
	for task := range holders {
		r.holders.Go(func() { r.hold(task) })
		if started := task + 1; started%atOnce == 0 || started == holders {
			if err := r.untilSetUp(started); err != nil {
				return err
			}
		}
	}
	r.records = make([]record, tasks)
	for task := range tasks {
		r.tasks.Go(func() { body(task, &r.records[task]) })
	}
	return r.untilSetUp(holders + tasks)
}

func (r *run) untilSetUp(count int) error {
	for int(r.setUp.Load()) < count {
		if first := r.first.Load(); first != nil {
			return fmt.Errorf("the set-up failed: %s", *first)
		}
		time.Sleep(look)
	}
	return nil
}

func (r *run) failed(err error) {
	r.errors.Add(1)
	text := err.Error()
	r.first.CompareAndSwap(nil, &text)
}

// section runs a body under the lock of a task.
func (r *run) section(task int, body func()) error {
	return r.sectionOf(r.workload.LockName(task), body)
}

func (r *run) sectionOf(name string, body func()) error {
	release, err := r.peer.Acquire(context.Background(), name, r.workload.Lease())
	if err != nil {
		return err
	}
	body()
	return release()
}

// hold holds a lock until the window is over.
func (r *run) hold(task int) {
	err := r.section(task, func() { r.setUp.Add(1); <-r.over })
	// The release of a held lock is behind the window, and all are released at once.
	if err != nil && (r.workload.What != "held" || !r.isOver()) {
		r.failed(err)
	}
}

func (r *run) isOver() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// wait waits for a lock until the window is over, and takes it.
func (r *run) wait(task int, record *record) {
	r.setUp.Add(1)
	if err := r.section(task, func() {}); err != nil {
		r.failed(err)
		return
	}
	record.grants.Store(1)
}

// warmUp runs a section under a name of the task's own, so that scripts are loaded and connections are open.
func (r *run) warmUp(task int) {
	name := fmt.Sprintf("%s:warm:%d:%d", r.workload.Prefix, r.workload.Index, task)
	if err := r.sectionOf(name, func() {}); err != nil {
		r.failed(err)
	}
	r.setUp.Add(1)
}

// contend runs one section after the other until the window is over.
func (r *run) contend(task int, record *record) {
	r.warmUp(task)
	<-r.window
	for now() < r.deadline {
		if err := r.oneSection(task, record); err != nil {
			r.failed(err)
		}
	}
}

// takeTurns runs a section whenever the last section was one of the other process.
func (r *run) takeTurns(task int, record *record) {
	r.warmUp(task)
	<-r.window
	for now() < r.deadline {
		if !r.exclusion.isOurTurn() {
			time.Sleep(look)
		} else if err := r.oneSection(task, record); err != nil {
			r.failed(err)
		}
	}
}

func (r *run) oneSection(task int, record *record) error {
	asked := now()
	var granted, left int64
	err := r.section(task, func() {
		granted = now()
		r.exclusion.enter()
		// A section that begins after the window only lets the next waiter pass.
		if r.workload.SectionUs > 0 && granted < r.deadline {
			time.Sleep(time.Duration(r.workload.SectionUs) * time.Microsecond)
		}
		r.exclusion.leave()
		left = now()
	})
	if err != nil {
		return err
	}
	record.latency = append(record.latency, granted-asked+now()-left)
	record.wait = append(record.wait, granted-asked)
	if granted < r.deadline {
		record.grants.Add(1)
	}
	if r.workload.What == "handover" {
		record.holds = append(record.holds, [2]float64{float64(granted) / 1e3, float64(left) / 1e3})
	}
	return nil
}
