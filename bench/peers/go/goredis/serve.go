// Package goredis serves the workloads to contenders over go-redis, whose locks do not renew by themselves.
package goredis

import (
	"github.com/redis/go-redis/v9"

	"leasehold.dev/peers/contender"
)

// Serve runs the workloads with the peer that newPeer makes of a client.
func Serve(newPeer func(client *redis.Client) contender.Peer) {
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
			return newPeer(redis.NewClient(options)), nil
		},
	)
}
