package watch

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
)

// TopHost holds the parts of the operator's command that naupegos top needs.
type TopHost struct {
	In       io.Reader
	Out      io.Writer
	Terminal bool // In and Out are one
	Screen   func() Screen
	List     func(ctx context.Context) ([]operate.Row, error) // without looking at clusters
	Status   func(ctx context.Context, cluster string) (*report.Status, error)
	Usage    func(ctx context.Context, cluster string) (*operate.UsageList, error)
	Describe func(ctx context.Context, cluster string, in operate.Subject) (*operate.Description, error)
	// Command returns this program with arguments, to run outside of the screen.
	Command func(args ...string) *exec.Cmd
}

// NewTop returns naupegos top.
func NewTop(h TopHost) *cobra.Command {
	var out output.Format
	var once bool
	within := 15 * time.Second
	c := &cobra.Command{
		Use:   "top [NAME]",
		Short: "Watch clusters, machines, etcd and running jobs on one screen",
		Long: `Show clusters, or the one named, live on the full screen: their state and cause, nodes, etcd's leader, size and lag, the
job at work; and of each machine its state and the CPU, memory and disk in use, as its kubelet measures them. A cluster
that does not answer shows what was last seen of it, and when.

Keys: up and down select, Enter shows details, s opens a shell on the machine, l shows its log, d drains its node after a
question, q quits.

--once prints one frame and ends, for scripts; it waits at most --timeout for clusters that do not answer.`,
		Example: "  naupegos top\n  naupegos top demo\n  naupegos top --once\n  naupegos top --once -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			only := ""
			if len(args) > 0 {
				only = args[0]
			}
			switch {
			case within <= 0:
				return fail.New(fail.Invalid, "--timeout=%s is not a positive time", within)
			case once:
				f, err := h.once(cmd.Context(), only, within)
				if err != nil {
					return err
				}
				return out.Print(h.Out, f, func(w io.Writer) error { return h.Screen().Frame(w, f) })
			case !out.IsTable():
				return fail.New(fail.Invalid, "-o %s needs --once", out.String()).Do("naupegos top --once -o %s prints one frame", out.String())
			case !h.Terminal:
				return fail.New(fail.Invalid, "top needs a terminal").Do("naupegos top --once prints one frame")
			}
			return h.live(cmd.Context(), only, within, globals(cmd.Root().PersistentFlags()))
		},
	}
	c.Flags().BoolVar(&once, "once", false, "print one frame and end")
	c.Flags().DurationVar(&within, "timeout", within, "how long to wait for a cluster's answer")
	out.Bind(c)
	return c
}

// globals lists the global flags that the user gave, for commands that the screen runs.
func globals(flags *pflag.FlagSet) (args []string) {
	flags.Visit(func(f *pflag.Flag) { args = append(args, "--"+f.Name+"="+f.Value.String()) })
	return args
}

// look gets the status and the usage of one cluster; the usage is nil if it is not available.
func (h TopHost) look(ctx context.Context, cluster string, within time.Duration) (*report.Status, *operate.UsageList, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var used *operate.UsageList
	var wg sync.WaitGroup
	wg.Go(func() {
		if u, err := h.Usage(ctx, cluster); err == nil { // without it, the screen shows dashes
			used = u
		}
	})
	st, err := h.Status(ctx, cluster)
	if err != nil {
		cancel()
	}
	wg.Wait()
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		err = fail.New(fail.NotReady, "no answer within %s", within)
	}
	return st, used, err
}

// learn records the outcome of a look. A failed look changes only the problem.
func (k *known) learn(st *report.Status, used *operate.UsageList, err error, now time.Time) {
	if err != nil {
		k.problem = err.Error()
		return
	}
	k.status, k.seen, k.problem = st, now, ""
	if used != nil {
		k.usage = usages(used)
	}
}

// once looks at all clusters, for at most within.
func (h TopHost) once(ctx context.Context, only string, within time.Duration) (*Frame, error) {
	rows, err := h.List(ctx)
	if err != nil {
		return nil, err
	}
	all := merge(nil, rows, only)
	if only != "" && len(all) == 0 {
		return nil, noSuchCluster(only, rows)
	}
	var wg sync.WaitGroup
	for _, k := range all {
		wg.Go(func() {
			st, used, err := h.look(ctx, k.row.Name, within)
			k.learn(st, used, err, time.Now())
		})
	}
	wg.Wait()
	return frameOf(all, "", time.Now()), ctx.Err()
}

func noSuchCluster(name string, rows []operate.Row) error {
	var names []string
	for _, r := range rows {
		names = append(names, r.Name)
	}
	err := fail.New(fail.NotFound, "there is no cluster %s", name)
	if len(names) > 0 {
		err = err.Do("known clusters: %s", joined(names))
	}
	return err
}

func joined(all []string) string {
	text := ""
	for i, n := range all {
		if i > 0 {
			text += ", "
		}
		text += n
	}
	return text
}

// live shows the screen until the user quits.
func (h TopHost) live(ctx context.Context, only string, within time.Duration, globals []string) error {
	rows, err := h.List(ctx)
	if err != nil {
		return err
	}
	if only != "" && len(merge(nil, rows, only)) == 0 {
		return noSuchCluster(only, rows)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &model{ctx: ctx, h: h, only: only, within: within, globals: globals, all: merge(nil, rows, only), asking: map[string]bool{}, width: 80, height: 24, color: h.Screen().Color}
	_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(h.In), tea.WithOutput(h.Out), tea.WithoutSignalHandler()).Run()
	if err != nil && ctx.Err() == nil {
		return fail.Wrap(fail.Internal, err, "show the screen")
	}
	return nil
}

// held is a command that runs outside of the screen; its output stays until Enter is pressed.
type held struct {
	*exec.Cmd
	in  io.Reader
	out io.Writer
}

// SetStdin implements tea.ExecCommand.
func (c *held) SetStdin(r io.Reader) { c.in = r }

// SetStdout implements tea.ExecCommand.
func (c *held) SetStdout(w io.Writer) { c.out = w }

// SetStderr implements tea.ExecCommand.
func (c *held) SetStderr(w io.Writer) {}

// Run implements tea.ExecCommand.
func (c *held) Run() error {
	c.Stdin, c.Stdout, c.Stderr = c.in, c.out, c.out
	err := c.Cmd.Run()
	if c.in == nil {
		return err
	}
	if err != nil {
		fmt.Fprintf(c.out, "%v\n", err)
	}
	fmt.Fprint(c.out, "\nEnter returns to the screen. ")
	one := make([]byte, 1)
	for {
		if n, e := c.in.Read(one); e != nil || n == 1 && (one[0] == '\n' || one[0] == '\r') {
			return nil
		}
	}
}

// self returns this program with arguments.
func self(args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		exe = "naupegos"
	}
	return exec.Command(exe, args...)
}
