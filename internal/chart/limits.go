package chart

import (
	"fmt"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// limits bound what templates take. Zero values are the defaults.
type limits struct {
	time time.Duration
	heap uint64 // bytes
}

const (
	defaultTime = time.Minute
	defaultHeap = 1 << 30
	maxRepeat   = 16 << 20 // bytes
)

// keep calls work and gives up on it at the limits. Go can't stop a template: it runs on until it ends or the program does.
func (l limits) keep(work func() (map[string]string, error)) (map[string]string, error) {
	if l.time == 0 {
		l.time = defaultTime
	}
	if l.heap == 0 {
		l.heap = defaultHeap
	}
	type result struct {
		texts map[string]string
		err   error
	}
	done := make(chan result, 1)
	before := heap()
	go func() {
		texts, err := work()
		done <- result{texts, err}
	}()
	end := time.NewTimer(l.time)
	defer end.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case r := <-done:
			return r.texts, r.err
		case <-end.C:
			return nil, fail.New(fail.Refused, "the templates take longer than %s", l.time).Do("look for a loop without an end in the chart's templates and values")
		case <-look.C:
			if heap() > before+l.heap {
				return nil, fail.New(fail.Refused, "the templates take more than %d MiB of memory", l.heap>>20).Do("look for a loop without an end in the chart's templates and values")
			}
		}
	}
}

// heap returns the bytes of all objects on the heap.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// repeat is the template function, with a bound: one call could ask for more memory than there is, which ends the program.
func repeat(count int, text string) (string, error) {
	if count < 0 || len(text) > 0 && count > maxRepeat/len(text) {
		return "", fmt.Errorf("repeat %d: the text would be larger than %d MiB", count, maxRepeat>>20)
	}
	return strings.Repeat(text, count), nil
}
