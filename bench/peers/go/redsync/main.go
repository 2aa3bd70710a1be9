// The contender redsync, over go-redis, with its default pause of 50 to 250 ms between two attempts and without a limit of
// attempts.
package main

import (
	"context"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"leasehold.dev/peers/contender"
	"leasehold.dev/peers/goredis"
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
	goredis.Serve(func(client *redis.Client) contender.Peer {
		return peer{client, redsync.New(pool.NewPool(client))}
	})
}
