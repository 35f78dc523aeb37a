package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
)

// statusEvery is the pause between two looks of --watch and --wait.
const statusEvery = 2 * time.Second

// statusFlags say how status looks at a cluster.
type statusFlags struct {
	out   output
	watch bool
	wait  time.Duration // 0: look once
}

// showStatus prints a cluster's status: once, each time it changes, or once it is healthy.
func (a *App) showStatus(ctx context.Context, name string, f *statusFlags) error {
	var limit <-chan time.Time
	if f.wait > 0 {
		limit = time.After(f.wait)
	}
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	var last []byte
	for {
		st, err := a.lookAt(ctx, name)
		if err != nil {
			return err
		}
		done := !f.watch && (f.wait == 0 || st.Healthy)
		if f.watch || done {
			if last, err = a.printStatus(st, f, last); err != nil {
				return err
			}
		}
		if done {
			return statusCode(st)
		}
		select {
		case <-tick.C:
		case <-limit:
			if f.watch {
				return statusCode(st)
			}
			if _, err := a.printStatus(st, f, nil); err != nil {
				return err
			}
			return fail.New(fail.NotReady, "cluster %s is not healthy after %s", name, f.wait).Do("give it longer with --wait=TIME, or mend it: naupegos plan -f FILE says what differs")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAt observes a cluster now, through a session of its own: what is known of it may have changed meanwhile.
func (a *App) lookAt(ctx context.Context, name string) (st *cluster.Status, err error) {
	err = a.onCluster(ctx, name, sessionOptions{readOnly: true, bundle: haveBundle}, func(s *session) (err error) {
		st, err = s.Cluster.Status(ctx)
		return err
	})
	return st, err
}

// printStatus prints a status unless it reads as the last one did, and returns how it reads.
func (a *App) printStatus(st *cluster.Status, f *statusFlags, last []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := f.out.print(&b, st, func(w io.Writer) error { return statusTable(w, st) }); err != nil {
		return nil, err
	}
	if bytes.Equal(b.Bytes(), last) {
		return last, nil
	}
	if f.watch && f.out.isTable() {
		fmt.Fprintf(a.Out, "%s\n", time.Now().Format(time.DateTime))
	}
	_, err := a.Out.Write(b.Bytes())
	return b.Bytes(), err
}

// statusCode is how the command ends.
func statusCode(st *cluster.Status) error {
	if st.Healthy {
		return nil
	}
	return exitCode(fail.NotReady.ExitCode())
}
