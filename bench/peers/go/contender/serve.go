package contender

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Serve runs the workloads of standard input against the server whose URL is the first argument.
//
// The refusal is the reason why the peer cannot run a workload, or empty.
func Serve(refusal func(*Workload) string, maker Maker) {
	verb := &verb{bufio.NewReader(os.Stdin)}
	for {
		line, found := verb.read()
		if !found {
			return
		}
		var workload Workload
		must(json.Unmarshal([]byte(line), &workload))
		if reason := refuse(&workload, refusal); reason != "" {
			verb.write(map[string]string{"unsupported": reason})
			continue
		}
		figures, err := runWorkload(os.Args[1], &workload, maker, verb)
		must(err)
		verb.write(figures)
	}
}

func refuse(workload *Workload, refusal func(*Workload) string) string {
	if workload.Kind != "lock" {
		return "it has the plain lock alone"
	}
	return refusal(workload)
}

// verb is the verb at the other end of the pipes.
type verb struct {
	input *bufio.Reader
}

func (v *verb) read() (string, bool) {
	line, err := v.input.ReadString('\n')
	return strings.TrimSpace(line), err == nil
}

func (v *verb) write(value any) {
	line, err := json.Marshal(value)
	must(err)
	fmt.Println(string(line))
}

// exchange writes a word and waits for another.
func (v *verb) exchange(said, wanted string) error {
	v.write(said)
	if line, _ := v.read(); line != `"`+wanted+`"` {
		return fmt.Errorf("the verb wrote %s in place of %s", line, wanted)
	}
	return nil
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
