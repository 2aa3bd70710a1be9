// Package peer has the line protocol of the Go peers. interop/plain/README.md describes it.
package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Errors of a library that mean an answer of the protocol.
var (
	ErrBusy        = errors.New("busy")
	ErrNotOwned    = errors.New("not-owned")
	ErrUnsupported = errors.New("unsupported")
)

// Lock is a held lock. Recreate is an extension that may set the key of a lost lock again.
type Lock interface {
	Release() error
	Extend(lease time.Duration) error
	Recreate(lease time.Duration) error
}

// Library acquires a lock, or returns ErrBusy if it does not wait.
type Library interface {
	Acquire(name string, lease time.Duration, waits bool) (Lock, error)
}

type peer struct {
	library Library
	client  *redis.Client
	held    map[string]Lock
}

func milliseconds(word string) time.Duration {
	number, _ := strconv.Atoi(word)
	return time.Duration(number) * time.Millisecond
}

func (p peer) acquire(words []string, waits bool) error {
	lock, err := p.library.Acquire(words[1], milliseconds(words[2]), waits)
	if err == nil {
		p.held[words[1]] = lock
	}
	return err
}

// count adds one to the counter under the lock, in two steps.
func (p peer) count(name, lease, counter string, granted func()) error {
	ctx := context.Background()
	lock, err := p.library.Acquire(name, milliseconds(lease), true)
	if err != nil {
		return err
	}
	granted()
	before, err := p.client.Get(ctx, counter).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if err := p.client.Set(ctx, counter, before+1, 0).Err(); err != nil {
		return err
	}
	return lock.Release()
}

func (p peer) crowd(name, lease, duration, counter string) (string, error) {
	end := time.Now().Add(milliseconds(duration))
	counts, inTime := 0, 0
	for time.Now().Before(end) {
		err := p.count(name, lease, counter, func() {
			if time.Now().Before(end) {
				inTime++
			}
		})
		if err != nil {
			return "", err
		}
		counts++
	}
	return fmt.Sprintf("ok %d %d", counts, inTime), nil
}

func (p peer) does(words []string) (string, error) {
	switch words[0] {
	case "try", "acquire":
		if words[2] == "none" {
			return "", ErrUnsupported
		}
		return "ok", p.acquire(words, words[0] == "acquire")
	case "release":
		lock := p.held[words[1]]
		delete(p.held, words[1])
		return "ok", lock.Release()
	case "extend":
		return "ok", p.held[words[1]].Extend(milliseconds(words[2]))
	case "recreate":
		return "ok", p.held[words[1]].Recreate(milliseconds(words[2]))
	case "crowd":
		return p.crowd(words[1], words[2], words[3], words[4])
	}
	return "", ErrUnsupported
}

func (p peer) answer(line string) string {
	answer, err := p.does(strings.Fields(line))
	switch {
	case err == nil:
		return answer
	case errors.Is(err, ErrBusy), errors.Is(err, ErrNotOwned), errors.Is(err, ErrUnsupported):
		return err.Error()
	}
	return "error " + strings.Join(strings.Fields(err.Error()), " ")
}

// Serve answers each line of standard input until it ends.
func Serve(open func(*redis.Client) Library) {
	options, err := redis.ParseURL(os.Args[1])
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(options)
	peer := peer{open(client), client, map[string]Lock{}}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(peer.answer(lines.Text()))
	}
}
