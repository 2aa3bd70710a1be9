// The contender redsync, over go-redis, with its default pause of 50 to 250 ms between two attempts and without a limit of
// attempts.
package main

import (
	"context"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"leasehold.dev/peers/contender"
)

type peer struct {
	client *redis.Client
	locks  *redsync.Redsync
}

func (p peer) Acquire(ctx context.Context, name string, lease time.Duration) (contender.Release, error) {
	mutex := p.locks.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt))
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return func() error {
		_, err := mutex.UnlockContext(ctx)
		return err
	}, nil
}

func (p peer) Close() {
	_ = p.client.Close()
}

func main() {
	contender.Serve(
		func(workload *contender.Workload) string {
			if workload.What == "held" {
				return "it does not renew by itself"
			}
			return ""
		},
		func(url string, _ *contender.Workload) (contender.Peer, error) {
			options, err := redis.ParseURL(url)
			if err != nil {
				return nil, err
			}
			client := redis.NewClient(options)
			return peer{client, redsync.New(goredis.NewPool(client))}, nil
		},
	)
}
