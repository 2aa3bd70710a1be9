// The contender rueidislock, with one key for each lock in place of three, because there is one server. The server's
// invalidation messages wake its waiters.
package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"leasehold.dev/peers/contender"
)

type peer struct {
	locker rueidislock.Locker
}

func (p peer) Acquire(ctx context.Context, name string, _ time.Duration) (contender.Release, error) {
	_, release, err := p.locker.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() error {
		release()
		return nil
	}, nil
}

func (p peer) Close() {
	p.locker.Close()
}

func main() {
	contender.Serve(
		func(*contender.Workload) string { return "" },
		func(url string, workload *contender.Workload) (contender.Peer, error) {
			options, err := rueidis.ParseURL(url)
			if err != nil {
				return nil, err
			}
			locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption: options,
				KeyMajority:  1,
				KeyValidity:  workload.Lease(),
				// The default needs three keys to be on time. One key with a busy server needs more.
				TryNextAfter: time.Minute,
			})
			return peer{locker}, err
		},
	)
}
