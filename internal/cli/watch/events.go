package watch

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
)

// eventsEvery is the interval of events --watch.
const eventsEvery = 2 * time.Second

// eventsFlags are the flags of naupegos events.
type eventsFlags struct {
	out      output.Format
	watch    bool
	warnings bool
	since    time.Duration
	machine  string
}

// NewEvents returns naupegos events.
func NewEvents(h Host) *cobra.Command {
	var f eventsFlags
	c := &cobra.Command{
		Use:   "events NAME",
		Short: "List what happened to a cluster: Kubernetes' events and Naupegos' runs",
		Long: `List what happened to a cluster, oldest first: the events that Kubernetes recorded, and the runs of Naupegos (apply,
upgrade, node replace, …) with their outcome. Kubernetes keeps its events for an hour; runs are kept. At most the newest
1000 are listed. If the API does not answer, a warning says so, and only runs are listed.

--watch prints further events as they happen, until you stop it. With -o json it prints one JSON object a line.`,
		Example: "  naupegos events demo\n  naupegos events demo --warnings --since 10m\n  naupegos events demo --machine demo-general-1\n  naupegos events demo --watch -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.since <= 0 {
				return fail.New(fail.Invalid, "--since=%s is not a positive time", f.since)
			}
			if f.watch {
				return h.follow(cmd.Context(), cmd.ErrOrStderr(), args[0], &f)
			}
			list, err := h.Events(cmd.Context(), args[0], f.asked())
			if err != nil {
				return err
			}
			return f.out.Print(h.Out, list, func(w io.Writer) error {
				if list.Problem != "" {
					complain(cmd.ErrOrStderr(), list.Problem)
				}
				return h.Screen().Events(w, list.Items, time.Now())
			})
		},
	}
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "print further events as they happen, until you stop it")
	c.Flags().DurationVar(&f.since, "since", time.Hour, "how far back to look")
	c.Flags().BoolVar(&f.warnings, "warnings", false, "list only warnings and failed runs")
	c.Flags().StringVar(&f.machine, "machine", "", "list only what concerns this machine")
	f.out.Bind(c)
	return c
}

func (f *eventsFlags) asked() operate.EventsOf {
	return operate.EventsOf{Seconds: max(1, int(f.since.Seconds())), Machine: f.machine, Warnings: f.warnings}
}

func complain(w io.Writer, problem string) {
	fmt.Fprintf(w, "Kubernetes' events are missing: %s\n", clean(problem))
}

// follow prints events as they happen, until it is interrupted. It reports a failed look once, and tries again.
func (h Host) follow(ctx context.Context, stderr io.Writer, cluster string, f *eventsFlags) error {
	seen := map[string]time.Time{}
	told := ""
	first := true
	for {
		list, err := h.Events(ctx, cluster, f.asked())
		switch {
		case ctx.Err() != nil && first:
			return ctx.Err()
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			list = &operate.EventList{Problem: err.Error()}
		}
		first = false
		if list.Problem != told && list.Problem != "" {
			complain(stderr, list.Problem)
		}
		told = list.Problem
		if err := h.printNew(list.Items, seen, f); err != nil {
			return err
		}
		forget(seen, time.Now().Add(-f.since-time.Hour))
		select {
		case <-time.After(eventsEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// printNew prints the events that are not in seen, and adds them to it.
func (h Host) printNew(items []operate.Happened, seen map[string]time.Time, f *eventsFlags) error {
	for _, e := range items {
		if _, known := seen[e.ID]; known {
			continue
		}
		seen[e.ID] = e.At
		var err error
		if f.out.IsTable() {
			err = h.Screen().event(h.Out, e)
		} else {
			err = output.WriteLine(h.Out, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forget drops old entries, which no later list contains.
func forget(seen map[string]time.Time, before time.Time) {
	for id, at := range seen {
		if at.Before(before) {
			delete(seen, id)
		}
	}
}

func eventColumns() []column {
	return []column{{head: "AGO"}, {head: "KIND", tint: kindColor, keep: 2}, {head: "REASON"}, {head: "OBJECT", keep: 3}, {head: "MESSAGE"}}
}

func kindOf(warning bool) string {
	if warning {
		return "warning"
	}
	return "normal"
}

func kindColor(kind string) string {
	if kind == "warning" {
		return yellow
	}
	return ""
}

// Events writes a list of events.
func (s Screen) Events(w io.Writer, items []operate.Happened, now time.Time) error {
	if len(items) == 0 {
		_, err := fmt.Fprintln(w, "No events.")
		return err
	}
	rows := [][]string{}
	for _, e := range items {
		rows = append(rows, []string{ago(now, e.At), kindOf(e.Warning), e.Reason, e.Object, counted(e)})
	}
	return s.table(w, eventColumns(), rows)
}

func counted(e operate.Happened) string {
	text := clean(e.Text)
	if e.Count > 1 {
		text += fmt.Sprintf(" (%d times)", e.Count)
	}
	return text
}

// event writes one event on its own line.
func (s Screen) event(w io.Writer, e operate.Happened) error {
	kind := kindOf(e.Warning)
	_, err := fmt.Fprintf(w, "%s  %s  %s  %s  %s\n", e.At.Local().Format(time.TimeOnly), s.paint(kindColor(kind), kind), clean(e.Reason), clean(e.Object), counted(e))
	return err
}
