package cli

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
)

// logFlags say where the log of one invocation goes. Arguments are never logged: those of kubectl may hold secrets.
type logFlags struct {
	verbose bool
	file    string
	log     *slog.Logger // nil before the flags are read
}

func (l *logFlags) bind(c *cobra.Command) {
	c.PersistentFlags().BoolVarP(&l.verbose, "verbose", "v", false, "say on standard error what is done, step by step")
	c.PersistentFlags().StringVar(&l.file, "log-file", "", "append what is done, step by step, to this file as lines of JSON")
}

// logger returns the log; before it is started, and where nobody wants one, what is written there is discarded.
func (l *logFlags) logger() *slog.Logger {
	if l.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l.log
}

// startLog opens the log that the flags ask for.
func (a *App) startLog(verb string) error {
	all := &slog.HandlerOptions{Level: slog.LevelDebug}
	var handlers []slog.Handler
	if a.logging.verbose {
		handlers = append(handlers, slog.NewTextHandler(a.Err, all))
	}
	if path := a.logging.file; path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) // open until the process ends
		if err != nil {
			return fail.Wrap(fail.Invalid, err, "open the log file").Do("name another --log-file")
		}
		handlers = append(handlers, slog.NewJSONHandler(f, all))
	}
	a.logging.log = slog.New(slog.NewMultiHandler(handlers...))
	a.logging.log.Info("begin", "verb", verb, "version", version, "pid", os.Getpid())
	return nil
}

// endLog says how the invocation ended.
func (a *App) endLog(err error, code int, took time.Duration) {
	attrs := []any{"exitCode", code, "took", took.Round(time.Millisecond).String()}
	if err != nil {
		a.logging.logger().Error("end", append(attrs, "error", err.Error())...)
		return
	}
	a.logging.logger().Info("end", attrs...)
}

// observer shows a run as the flags say, and logs it. Live progress and a log on the same terminal would overwrite each other.
func (a *App) observer(kind progressFlag) plan.Observer {
	if kind == "" && a.logging.verbose {
		kind = progressFlag(show.ObservePlain)
	}
	return loggedRun{show.NewObserver(a.Err, show.ObserverKind(kind)), a.logging.logger()}
}

// loggedRun logs what an observer is told.
type loggedRun struct {
	plan.Observer
	log *slog.Logger
}

// Begin implements plan.Observer.
func (l loggedRun) Begin(p *plan.Plan, at time.Time) {
	l.log.Info("plan", "verb", p.Verb, "cluster", p.Cluster, "steps", len(p.Steps))
	l.Observer.Begin(p, at)
}

// Event implements plan.Observer.
func (l loggedRun) Event(e plan.Event) {
	attrs := []any{"id", e.Step.ID, "state", fmt.Sprint(e.State)}
	if e.Status != "" {
		attrs = append(attrs, "status", e.Status)
	}
	if e.Err != nil {
		l.log.Warn("step", append(attrs, "attempt", e.Attempt, "error", e.Err.Error())...)
	} else {
		l.log.Debug("step", attrs...)
	}
	l.Observer.Event(e)
}

// Note implements plan.Observer.
func (l loggedRun) Note(text string) {
	l.log.Info("note", "text", text)
	l.Observer.Note(text)
}
