// The contender bsm/redislock, over go-redis. It has no default for waiting, so it polls every millisecond, as the
// hand-written lock does.
package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"leasehold.dev/peers/contender"
	"leasehold.dev/peers/goredis"
)

const poll = time.Millisecond

// longestWait replaces the library's limit, which is the lease.
const longestWait = time.Hour

type peer struct {
	client *redis.Client
	locks  *redislock.Client
}

func (p peer) Acquire(ctx context.Context, name string, lease time.Duration) (contender.Release, error) {
	waiting, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(poll)}
	lock, err := p.locks.Obtain(waiting, name, lease, options)
	if err != nil {
		return nil, err
	}
	return func() error { return lock.Release(ctx) }, nil
}

func (p peer) Close() {
	_ = p.client.Close()
}

func main() {
	goredis.Serve(func(client *redis.Client) contender.Peer {
		return peer{client, redislock.New(client)}
	})
}
