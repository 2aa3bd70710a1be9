// The peer redsync with one pool over go-redis, and with its default pauses of 50 to 250 ms between two attempts.
package main

import (
	"errors"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	pools "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"leasehold.dev/plainpeers/peer"
)

type library struct{ *redsync.Redsync }

type lock struct {
	library
	*redsync.Mutex
}

func (l library) Acquire(name string, lease time.Duration, waits bool) (peer.Lock, error) {
	mutex := l.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt))
	if waits {
		return lock{l, mutex}, mutex.Lock()
	}
	err := mutex.TryLock()
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		return nil, peer.ErrBusy
	}
	return lock{l, mutex}, err
}

// owned reads the two ways in which the library says that a lock is not held.
func owned(held bool, err error) error {
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return peer.ErrNotOwned
	}
	if err == nil && !held {
		return peer.ErrNotOwned
	}
	return err
}

func (l lock) Release() error {
	return owned(l.Unlock())
}

func (l lock) again(lease time.Duration, more ...redsync.Option) error {
	options := append(more, redsync.WithExpiry(lease), redsync.WithValue(l.Value()))
	return owned(l.NewMutex(l.Name(), options...).Extend())
}

func (l lock) Extend(lease time.Duration) error {
	return l.again(lease)
}

func (l lock) Recreate(lease time.Duration) error {
	return l.again(lease, redsync.WithSetNXOnExtend())
}

func main() {
	peer.Serve(func(client *redis.Client) peer.Library {
		return library{redsync.New(pools.NewPool(client))}
	})
}
