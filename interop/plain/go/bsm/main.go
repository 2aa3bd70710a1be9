// The peer bsm/redislock over go-redis. It has no default for waiting, and polls every 50 ms here.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"leasehold.dev/plainpeers/peer"
)

const poll = 50 * time.Millisecond

// longestWait replaces the library's limit, which is the lease.
const longestWait = time.Hour

type library struct{ *redislock.Client }

type lock struct{ *redislock.Lock }

func (l library) Acquire(name string, lease time.Duration, waits bool) (peer.Lock, error) {
	ctx, cancel := context.WithTimeout(context.Background(), longestWait)
	defer cancel()
	options := &redislock.Options{}
	if waits {
		options.RetryStrategy = redislock.LinearBackoff(poll)
	}
	held, err := l.Obtain(ctx, name, lease, options)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, peer.ErrBusy
	}
	return lock{held}, err
}

func (l lock) Release() error {
	err := l.Lock.Release(context.Background())
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return peer.ErrNotOwned
	}
	return err
}

func (l lock) Extend(lease time.Duration) error {
	err := l.Refresh(context.Background(), lease, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return peer.ErrNotOwned
	}
	return err
}

func (l lock) Recreate(time.Duration) error {
	return peer.ErrUnsupported
}

func main() {
	peer.Serve(func(client *redis.Client) peer.Library {
		return library{redislock.New(client)}
	})
}
