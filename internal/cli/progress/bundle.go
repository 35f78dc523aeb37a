package progress

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
)

// every is the interval at which a long phase reports that it continues.
const every = 10 * time.Second

// Bundle returns a function that reports the making of a bundle: a line at the end of each phase, and one now and then.
func Bundle(w io.Writer) func(bundle.Event) {
	var mu sync.Mutex
	last := map[string]time.Time{}
	return func(e bundle.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Note != "" {
			fmt.Fprintf(w, "  %s\n", e.Note)
			return
		}
		key := e.Component + " " + e.Phase
		if !e.Finished {
			if began, ok := last[key]; !ok || time.Since(began) < every {
				if !ok {
					last[key] = time.Now()
				}
				return
			}
		}
		last[key] = time.Now()
		fmt.Fprintln(w, bundleLine(e))
	}
}

func bundleLine(e bundle.Event) string {
	line := fmt.Sprintf("  %-22s %-9s", e.Component, e.Phase)
	switch {
	case e.Cached:
		return line + " cached"
	case e.Finished:
		return line + fmt.Sprintf(" done in %s", e.Elapsed.Round(100*time.Millisecond))
	case e.Total > 0:
		return line + fmt.Sprintf(" %d of %d, %s", e.Done, e.Total, e.Elapsed.Round(time.Second))
	}
	return line + fmt.Sprintf(" %s", e.Elapsed.Round(time.Second))
}
