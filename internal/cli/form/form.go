// Package form asks for the values of a new Cluster document in a form on the terminal.
//
// It does not write the document.
package form

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/sample"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/fail"
)

// MaxWorkers is the limit of workers.
const MaxWorkers = 1000

// Ask fills o in a form on the terminal in. Unless the user completes the form, it returns an error.
func Ask(ctx context.Context, in io.Reader, w io.Writer, o *sample.Options) error {
	if !terminal.Is(in) {
		return fail.New(fail.Invalid, "--interactive needs a terminal").Do("use the flags; naupegos init --help lists them")
	}
	endpoint := o.Endpoint
	cps, workers := strconv.Itoa(o.ControlPlanes), strconv.Itoa(o.Workers)
	general := huh.NewGroup(
		huh.NewInput().Title("Name of the cluster").Value(&o.Name).Validate(func(s string) error {
			_, err := sample.New(sample.Options{Name: s})
			return err
		}),
		huh.NewSelect[string]().Title("Where do machines come from?").Options(
			huh.NewOption("containers on this machine", "local"),
			huh.NewOption("hosts that I name by address", "hosts"),
			huh.NewOption("an OpenStack cloud", "openstack"),
			huh.NewOption("physical machines that naupegos server knows", "metal"),
		).Value(&o.Provider),
		huh.NewSelect[string]().Title("Control-plane machines").Description("an odd number: one may fail of three, two of five").
			Options(huh.NewOptions("1", "3", "5")...).Value(&cps),
		huh.NewInput().Title("Worker machines").Value(&workers).Validate(func(s string) error {
			if n, err := strconv.Atoi(s); err != nil || n < 0 || n > MaxWorkers {
				return fmt.Errorf("a number from 0 to %d", MaxWorkers)
			}
			return nil
		}),
		huh.NewSelect[string]().Title("Where does etcd run?").Options(
			huh.NewOption("as static pods (stacked)", "stacked"),
			huh.NewOption("as systemd units (service)", "service"),
		).Value(&o.EtcdMode),
	)
	forms := [][]*huh.Group{{general, openStackForm(o)}}
	if inLines() { // huh asks hidden groups, too
		forms = [][]*huh.Group{{general}, {openStackForm(o)}}
	}
	for i, groups := range forms {
		if i > 0 && o.Provider != v1alpha1.ProviderOpenStack {
			break
		}
		if err := run(ctx, huh.NewForm(groups...), in, w); err != nil {
			return err
		}
	}
	if o.Provider != v1alpha1.ProviderOpenStack {
		o.Endpoint = endpoint // the form did not ask
	}
	o.ControlPlanes, _ = strconv.Atoi(cps) // one of the options
	o.Workers, _ = strconv.Atoi(workers)   // validated by the form
	return nil
}

// inLines reports whether questions are asked line by line, because the terminal can't draw a form.
func inLines() bool { return os.Getenv("TERM") == "dumb" }

// run runs a form until the user completes it. A signal, a closed terminal and the end of input end it otherwise: bubbletea reports some of these as
// success.
func run(ctx context.Context, questions *huh.Form, in io.Reader, w io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, end := context.WithCancel(ctx)
	defer end()
	lines := inLines()
	input := &ending{Reader: in, end: end}
	if lines {
		questions = questions.WithAccessible(true).WithInput(input)
	} else {
		questions = questions.WithProgramOptions(tea.WithFilter(endOfInput)).WithInput(in)
	}
	done := make(chan error, 1)
	go func() { done <- questions.WithOutput(w).RunWithContext(ctx) }()
	var err error
	if lines {
		select { // a question in lines does not end with ctx; it ends with the process
		case err = <-done:
		case <-ctx.Done():
		}
	} else {
		err = <-done // the terminal is as it was before
	}
	switch {
	case ctx.Err() != nil, errors.Is(err, huh.ErrUserAborted), err == nil && !lines && questions.State != huh.StateCompleted:
		return fail.New(fail.Interrupted, "nothing was written: the form was not completed")
	case err != nil:
		return fail.Wrap(fail.Internal, err, "ask")
	}
	return nil
}

// endOfInput lets Ctrl-D end a form as Ctrl-C does.
func endOfInput(_ tea.Model, msg tea.Msg) tea.Msg {
	if k, ok := msg.(tea.KeyPressMsg); ok && k.String() == "ctrl+d" {
		return tea.Interrupt()
	}
	return msg
}

// ending ends a form with its input: huh takes that for an empty answer.
type ending struct {
	io.Reader
	end func()
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err != nil {
		e.end()
	}
	return n, err
}

// openStackForm asks for the settings of a cloud; it is left out with other providers.
func openStackForm(o *sample.Options) *huh.Group {
	return huh.NewGroup(
		huh.NewInput().Title("Cloud").Description("its name in clouds.yaml; empty: $OS_CLOUD or the OS_* variables").Value(&o.Cloud),
		huh.NewInput().Title("External network").Description("where floating IPs come from; empty: the cloud's only one").Value(&o.ExternalNetwork),
		huh.NewInput().Title("Flavor").Description("empty: m1.medium").Value(&o.Flavor),
		huh.NewInput().Title("Image").Description("Debian or Ubuntu with cloud-init; empty: debian-12").Value(&o.Image),
		huh.NewSelect[string]().Title("Where is the Kubernetes API reached?").Options(
			huh.NewOption("the cloud's load balancer (octavia)", v1alpha1.EndpointOctavia),
			huh.NewOption("gateway machines of the cluster's own", v1alpha1.EndpointGateways),
		).Value(&o.Endpoint),
	).WithHideFunc(func() bool { return o.Provider != v1alpha1.ProviderOpenStack })
}
