package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/people"
	"github.com/naupegos/naupegos/internal/cli/signin"
	"github.com/naupegos/naupegos/internal/cli/verbs"
	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/server/api"
	"github.com/naupegos/naupegos/internal/server/work"
)

// The paths of commands that work through a server in addition to operate's verbs, and of commands that need no store. With a server, all other
// commands are refused, with an alternative.
var (
	withServer = []string{"plan", "diff", "status", "top", "describe", "events", "history", "document", "kubeconfig", "users", "handover", "node list", "certs list", "machine list", "backup list", "backup show", "backup volumes",
		"doctor", "certs issuer", "logs", "support", "server", "server status", "server audit", "server audit verify"}

	withoutStore = []string{"login", "logout", "get-token", "use", "options", "init", "validate", "explain", "schema", "version", "help", "completion", "__complete", "__completeNoDesc", "bundle", "image", "local-machine"}

	instead = map[string]string{
		"kubectl":   "naupegos kubeconfig NAME, and a kubectl of your own",
		"autoscale": "with spec.unattended.autoscale in its document, servers answer the cluster's autoscaler",
		"ui":        "open its pages: https://HOST:PORT/ui/", "server": "run it on the server's host, in an environment that names no server: here it would work on this host's store",
		"store":      "naupegos server backup and restore, where the server's store is",
		"ssh":        "naupegos handover NAME DIR, then ssh -F ssh_config MACHINE in DIR: the way to machines is yours, not the server's",
		"ssh-config": "naupegos handover NAME DIR writes one for this host",
		"backup key": "run it where the server's store is: the passphrase must not leave that host",
	}
)

// checkServer refuses a verb that does not work through the server in use.
func checkServer(c *cobra.Command, a *App) error {
	name := verbs.Path(c)
	first, _, _ := strings.Cut(name, " ")
	if name == "" || c.HasSubCommands() || slices.Contains(withoutStore, first) {
		return nil
	}
	at, err := a.where.Now()
	if err != nil || at.Server == "" {
		return err
	}
	// Verbs about physical machines contact the server themselves.
	if slices.Contains(operate.Verbs(), name) || slices.Contains(withServer, name) || first == "machine" {
		return nil
	}
	return fail.New(fail.Refused, "%s does not go through a server, and %s is named", c.CommandPath(), at.Server).
		Do("%s", cmp.Or(instead[name], instead[first], "run it where the server's store is, without --server and $NAUPEGOS_SERVER"))
}

// server returns a client of the server in use, or nil if there is none.
func (a *App) server() (*client.Client, error) {
	conf, err := a.connection()
	if err != nil || conf.URL == "" {
		return nil, err
	}
	return client.New(conf)
}

// connection returns the configuration for the server in use, with a token; without a URL there is no server.
func (a *App) connection() (client.Config, error) {
	conf, err := a.asked()
	if err != nil || conf.URL == "" || conf.Token != "" {
		return conf, err
	}
	ctx, cancel := context.WithTimeout(a.now(), time.Minute)
	defer cancel()
	dir, err := a.ownDir()
	if err == nil {
		conf.Token, err = signin.Token(ctx, dir, conf.URL)
	}
	return conf, err
}

// asked is connection without the token of a sign-in.
func (a *App) asked() (client.Config, error) {
	at, err := a.where.Now()
	conf := client.Config{URL: at.Server, Token: os.Getenv("NAUPEGOS_TOKEN")}
	if err != nil || conf.URL == "" {
		return conf, err
	}
	if file := at.TokenFile; conf.Token == "" && file != "" {
		info, err := os.Stat(file)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			return conf, fail.New(fail.Refused, "the token can be read by others (mode %04o)", info.Mode().Perm()).At(file).Do("chmod 600 %s", file)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return conf, fail.Wrap(fail.Invalid, err, "read the token")
		}
		conf.Token = string(data)
	}
	conf.Token = strings.TrimSpace(conf.Token)
	if at.ServerCA != "" {
		if conf.CA, err = os.ReadFile(at.ServerCA); err != nil {
			return conf, fail.Wrap(fail.Invalid, err, "read the authority of the server's certificate")
		}
	}
	return conf, nil
}

// afar is a verb that a server executes.
type afar struct {
	*verb
	app    *App
	server *client.Client
}

// planned gets a plan from the server, and prints the server's messages about it.
func (a *App) planned(ctx context.Context, c *client.Client, r api.PlanRequest) (*api.Planned, *plan.Plan, error) {
	got, err := c.Plan(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	for _, line := range got.Said {
		fmt.Fprintln(a.Err, words.Text(line))
	}
	p, err := show.Parse(got.Plan)
	return got, p, err
}

// look gets the first plan, if the verb starts with one or is a dry run. idle: nothing else is to do.
func (v *afar) look(ctx context.Context) (first *plan.Plan, found operate.Done, idle bool, err error) {
	if !v.flags.dry && !v.asked.LooksFirst() {
		return nil, found, false, nil
	}
	got, p, err := v.app.planned(ctx, v.server, api.PlanRequest{Asked: v.asked, Look: !v.flags.dry})
	if err != nil {
		return nil, found, true, err
	}
	if v.flags.dry {
		err = v.app.showDry(v.verb, p, got.Later, got.Obstacle())
	}
	return p, got.Found, v.flags.dry || got.Idle, err
}

// carryOut gets a plan, shows it, asks, and lets the server execute it. It returns the first plan and the result. If more turns out to be
// needed than the user agreed to, it shows and asks again.
func (v *afar) carryOut(ctx context.Context) (first *plan.Plan, done operate.Done, err error) {
	if p, found, idle, err := v.look(ctx); idle || err != nil {
		return p, found, err
	}
	asked, ask, rewritten := v.asked, v.ask, false
	for changed, said := false, ""; ; {
		got, p, err := v.app.planned(ctx, v.server, api.PlanRequest{Asked: asked, Prepare: true})
		if err != nil {
			return first, done, err
		}
		if first == nil {
			first = p
		}
		if got.Idle {
			return first, got.Found, nil
		}
		if err := v.agree(p, got.Later, ask(p), got.Asked.Plain()); err != nil {
			return first, done, err
		}
		asked = got.Asked
		if v.taking != nil {
			if err := v.taking(ctx, v.server, &asked); err != nil {
				return first, done, err
			}
		}
		r, err := v.run(ctx, asked, got.Digest)
		done = r.Done
		if done.Said = strings.TrimSpace(said + "\n" + done.Said); (err == nil || done.Changed) && !rewritten {
			rewritten = true
			err = errors.Join(err, v.rewrite(v.app, asked.Edited))
		}
		done.Changed = done.Changed || changed
		if err != nil || !r.More {
			return first, done, err
		}
		changed, said, asked = true, done.Said, asked.Then()
		ask = func(*plan.Plan) string { return "More changes are needed. Carry them out, too?" }
	}
}

// carryOutAgreed lets the server execute a plan that the user agreed to before. It asks only if more turns out to be needed.
func (v *afar) carryOutAgreed(ctx context.Context, p *plan.Plan, digest string) (done operate.Done, err error) {
	if err := v.front(v.app).Show(p, ""); err != nil {
		return done, err
	}
	if err := p.CheckConsents(v.flags.consents.Given); err != nil {
		return done, err
	}
	r, err := v.run(ctx, v.asked, digest)
	if err != nil || !r.More {
		return r.Done, err
	}
	v.asked, v.question = v.asked.Then(), "More changes are needed. Carry them out, too?"
	_, done, err = v.carryOut(ctx)
	done.Changed = true
	return done, err
}

// agree shows a plan and asks, as a command without a server does.
func (v *afar) agree(p *plan.Plan, later, question string, plain bool) error {
	if p.Empty() || plain {
		return nil
	}
	f := v.front(v.app)
	if err := f.Show(p, later); err != nil {
		return err
	}
	if err := p.CheckConsents(v.flags.consents.Given); err != nil {
		return err
	}
	return f.Agree(question)
}

// run lets the server execute the plan with a digest, and shows the progress. Ctrl-C stops the job, not the command: the first one after the
// running steps, the second one at once.
func (v *afar) run(ctx context.Context, what operate.Asked, digest string) (r work.Result, err error) {
	asked, err := v.server.Submit(ctx, work.Order{
		Asked: what, Digest: digest, Consents: v.flags.consents.Given, Yes: v.flags.yes, Parallel: int(v.flags.parallel),
	})
	if err != nil && ctx.Err() != nil {
		return r, fail.New(fail.Interrupted, "%s was interrupted: whether the server began it is not known", what.Verb).Do("naupegos history %s shows its run", what.Cluster) // cause withheld: the user stopped it
	}
	if err != nil {
		return r, err
	}
	soft, hard, end := plan.Interruptible(ctx)
	defer end()
	over := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		v.passOn(ctx, soft, hard.Done(), over, asked.ID)
	}()
	shown := &watched{v: v, replay: show.Replay{Observer: func() plan.Observer { return v.app.observer(v.flags.progress) }}}
	shown.replay.Plan = shown.plan
	job, err := v.server.Follow(ctx, asked.ID, shown.line)
	close(over)
	<-stopped
	shown.replay.Abandon()
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(job.Result, &r); err != nil {
		return r, fail.Wrap(fail.Internal, err, "read the outcome of the job")
	}
	if r.More {
		r.Kind = ""
	}
	return r, r.Err()
}

// passOn sends the user's request to stop to the server.
func (v *afar) passOn(ctx context.Context, soft, hard, over <-chan struct{}, id string) {
	tell := func(now bool) {
		bounded, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		if err := v.server.Stop(bounded, id, now); err != nil {
			fmt.Fprintf(v.app.Err, "the server could not be told to stop: %v\n", err)
		}
	}
	select {
	case <-soft:
		tell(false)
	case <-over:
		return
	}
	select {
	case <-hard:
		if ctx.Err() == nil {
			tell(true)
		}
	case <-over:
	}
}

// watched shows a job's output.
type watched struct {
	v      *afar
	replay show.Replay
	plans  int
}

// line shows one line of output. With progress as JSON it passes lines on unchanged.
func (w *watched) line(line []byte) (err error) {
	var kind struct{ Event, Text string }
	if err := json.Unmarshal(line, &kind); err != nil {
		return fail.Wrap(fail.Internal, err, "read the job's events")
	}
	switch {
	case kind.Event == "say":
		_, err = fmt.Fprintln(w.v.app.Err, words.Text(kind.Text))
	case kind.Event == "steps" && w.v.flags.progress.JSON(): // for displays of another kind
	case !w.v.flags.progress.JSON():
		err = w.replay.Line(line)
	case kind.Event == "plan" && w.plans == 0: // shown before the user agreed
		w.plans++
	default:
		_, err = fmt.Fprintf(w.v.app.Err, "%s\n", words.Line(string(line)))
	}
	return err
}

// plan shows a later plan with --yes. Without --yes, carryOut shows it when it asks.
func (w *watched) plan(p *plan.Plan) error {
	if w.plans++; w.plans == 1 || !w.v.flags.yes {
		return nil
	}
	return w.v.front(w.v.app).Show(p, "")
}

func (a *App) signIn() signin.Host {
	return signin.Host{Out: a.Out, Err: a.Err, Server: a.asked, Dir: a.ownDir, Entrance: a.people().Entrance}
}

// people lends what verbs about a cluster's users need.
func (a *App) people() people.Host {
	return people.Host{
		Out: a.Out,
		Kubeconfig: func(ctx context.Context, name string, who operate.KubeconfigFor) (*operate.Files, error) {
			return see(ctx, a, name, operate.KubeconfigView, who)
		},
		Entrance: func(ctx context.Context, name string) (*cluster.Entrance, error) {
			return see(ctx, a, name, operate.Entrance, operate.Plainly{})
		},
		Users: func(ctx context.Context, name string) (*cluster.Users, error) {
			return see(ctx, a, name, operate.Users, operate.Plainly{})
		},
	}
}
