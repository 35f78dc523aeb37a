package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cli/flags"
	"github.com/naupegos/naupegos/internal/cli/killpoint"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/cli/verbs"
	"github.com/naupegos/naupegos/internal/cli/wholefile"
	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/server/work"
)

// runFlags are the flags of every verb that executes a plan.
type runFlags struct {
	yes      bool
	typed    string // text to type to agree, for verbs that delete data; empty: y
	consents flags.Consents
	parallel flags.AtLeastOne
	progress flags.Progress
	dry      bool // show the plan, and change nothing
}

func (f *runFlags) bind(c *cobra.Command) {
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask before carrying the plan out")
	f.consents.Known = cluster.Consents()
	c.Flags().Var(&f.consents, "consent", "consent to a disruption that the plan names, NAME or NAME=MACHINE (repeatable)")
	f.parallel = 16
	c.Flags().Var(&f.parallel, "parallel", "maximum number of steps that run at once")
	c.Flags().Var(&f.progress, "progress", "progress output: tty, plain, json or none (default tty on a terminal, else plain)")
	verbs.DryRun(c, &f.dry)
}

// carryOut is the question after a plan.
const carryOut = "Carry this out?"

// confirm asks the user, unless --yes was given.
func (a *App) confirm(f *runFlags, question string) error {
	if f.yes {
		return nil
	}
	if !terminal.Is(a.In) {
		return fail.New(fail.Refused, "cannot prompt %q: standard input is not a terminal", question).Do("add --yes")
	}
	return terminal.Confirm(a.In, a.Err, question, f.typed)
}

// front is the operator's terminal, with the flags of a verb.
type front struct {
	app   *App
	flags *runFlags
	brief bool // show only a plan's warnings
}

// Show prints a plan in the form of the progress, and in the same place. It does so with --yes, too, so that the user can read later what was
// done.
func (f front) Show(p *plan.Plan, later string) error {
	if f.flags.progress.JSON() {
		return show.WriteEvent(f.app.Err, p, time.Now())
	}
	if f.brief {
		for _, w := range p.Warnings {
			if _, err := fmt.Fprintln(f.app.Err, w); err != nil {
				return err
			}
		}
		return nil
	}
	err := show.WriteText(f.app.Err, p, lookOf(f.app, f.app.Err, false))
	if err == nil && later != "" {
		_, err = fmt.Fprintln(f.app.Err, later)
	}
	return err
}

// Agree asks the user, unless --yes was given.
func (f front) Agree(question string) error { return f.app.confirm(f.flags, question) }

// Observer shows a run as the flags say, and logs it.
func (f front) Observer() plan.Observer { return f.app.observer(f.flags.progress) }

// terms returns the terms for executing plans, from a verb's flags.
func (a *App) terms(f *runFlags, doc *v1alpha1.Cluster) operate.Terms {
	return operate.Terms{
		Front: front{app: a, flags: f}, Question: carryOut, Yes: f.yes, Consents: f.consents.Given, Parallel: int(f.parallel), Step: doc.Spec.Timeouts.Step.Duration,
		Interrupts: plan.Interruptible, Meta: map[string]string{"version": version}, Hook: killpoint.Hook(),
	}
}

// verb is a verb on a cluster, executed by this command or by a server.
type verb struct {
	asked    operate.Asked
	flags    *runFlags
	question string
	asks     func(*plan.Plan) string // returns the question for a plan, instead of question; may be nil
	brief    bool                    // show only a plan's warnings
	out      *output.Format          // of a dry run; nil: text
	file     string                  // the user's document, if the verb changes it, too

	here   func(o *operate.Options)                                                 // adds options that only this command can provide; may be nil
	taking func(ctx context.Context, c *client.Client, agreed *operate.Asked) error // fetches data that the server would lose, after the user agreed; may be nil
}

// carry executes a verb, here or on a server, and returns its first plan and the result. A dry run returns an exitCode: exitChanges if there is
// anything to do. If a verb that looks first finds nothing, its dry run returns the findings.
func (a *App) carry(ctx context.Context, v *verb) (first *plan.Plan, done operate.Done, err error) {
	if v.flags.progress.JSON() && v.flags.yes { // otherwise a question may come
		with := *a
		with.Err, a = show.NoteWriter(a.Err), &with
	}
	c, err := a.server()
	if err != nil {
		return nil, done, err
	}
	if c != nil {
		return (&afar{app: a, server: c, verb: v}).carryOut(ctx)
	}
	if v.asked.LooksFirst() { // does not block other users meanwhile
		b, err := a.begin(ctx, v.asked, work.Need{Look: true}, v.here, nil)
		if err != nil {
			return nil, done, err
		}
		if err := b.Close(); err != nil || b.Idle {
			return b.First.Plan, b.Found, err
		}
	}
	var foreseen *plan.Plan // agreed to before its bundle was made
	b, err := a.begin(ctx, v.asked, work.Need{CarryOut: !v.flags.dry}, v.here, func(ctx context.Context, b *operate.Begun) error {
		foreseen = b.First.Plan
		return b.Propose(ctx, v.terms(a, b))
	})
	if err != nil {
		return nil, done, err
	}
	defer func() { err = b.CloseWith(err) }()
	if v.flags.dry {
		return b.First.Plan, b.Found, a.showDry(v, b.First.Plan, b.Later(), b.First.Unready)
	}
	if b.Idle {
		return b.First.Plan, b.Found, nil
	}
	t := v.terms(a, b)
	if !v.flags.yes { // with --yes the whole plan is shown, and agreed to in advance
		t.Agreed = foreseen
	}
	t.Commit = func(context.Context) error { return v.rewrite(a, b.Resolved().Edited) }
	done, err = b.CarryOut(ctx, t)
	return b.First.Plan, done, err
}

// terms returns the terms for executing the verb's plans.
func (v *verb) terms(a *App, b *operate.Begun) operate.Terms {
	t := a.terms(v.flags, b.Document)
	t.Front, t.Question = v.front(a), v.ask(b.First.Plan)
	return t
}

func (a *App) showDry(v *verb, p *plan.Plan, later string, unready error) error {
	if v.asked.LooksFirst() && p.Empty() {
		return nil
	}
	return cmp.Or(a.printPlan(p, later, unready, cmp.Or(v.out, &output.Format{}), false), error(exitCode(0)))
}

func (v *verb) front(a *App) front { return front{a, v.flags, v.brief} }

// ask returns the question after a plan.
func (v *verb) ask(p *plan.Plan) string {
	if v.asks != nil {
		return v.asks(p)
	}
	return cmp.Or(v.question, carryOut)
}

// rewrite writes the document with a verb's change into the user's file, and reports it.
func (v *verb) rewrite(a *App, e *operate.Edited) error {
	switch {
	case e == nil || !e.Changed:
		return nil
	case v.file == "":
		_, err := fmt.Fprintln(a.Err, "The stored document was changed; if you keep it in a file, change that too or name it with -f.")
		return err
	}
	if err := wholefile.Rewrite(v.file, []byte(e.Document)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Err, "%s was changed.\n", v.file)
	return err
}

// logFlags define where an invocation writes its log. Arguments are never logged, because kubectl's may contain secrets.
type logFlags struct {
	verbose bool
	file    string
	log     *slog.Logger // nil before the flags are parsed
}

func (l *logFlags) bind(c *cobra.Command) {
	c.PersistentFlags().BoolVarP(&l.verbose, "verbose", "v", false, "log each step to standard error")
	c.PersistentFlags().StringVar(&l.file, "log-file", "", "append a log of each step to this file, as JSON lines")
}

// logger returns the log, or one that discards everything if the log is not open.
func (l *logFlags) logger() *slog.Logger {
	if l.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l.log
}

// startLog opens the log according to the flags.
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

// endLog logs the result of the invocation.
func (a *App) endLog(err error, code int, took time.Duration) {
	attrs := []any{"exitCode", code, "took", took.Round(time.Millisecond).String()}
	if err != nil {
		a.logging.logger().Error("end", append(attrs, "error", err.Error())...)
		return
	}
	a.logging.logger().Info("end", attrs...)
}

// observer shows a run as the flags say, and logs it. Live progress and a log on the same terminal would overwrite each other.
func (a *App) observer(kind flags.Progress) plan.Observer {
	if kind == "" && a.logging.verbose {
		kind = flags.Progress(show.ObservePlain)
	}
	return loggedRun{show.NewObserver(a.Err, show.ObserverKind(kind)), a.logging.logger()}
}

// loggedRun logs a run's events.
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
