package metal

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/server/routes/client"
)

// wanted holds the flags of machine install.
type wanted struct {
	order              order.Order
	system, kubernetes string
	keyFiles           []string
	userData           string
	none               bool
	slotGiB, minimum   int64
	trial              int
}

func (v *Verbs) install() *cobra.Command {
	var w wanted
	c := v.verb("install MACHINE", "Set what is installed on a physical machine",
		`Set what is installed on a physical machine. A machine that is not installed yet gets it when it next boots from the
network; one that runs is outdated from then on, and takes it as its strategy says. The system image is one that
naupegos image system made.

The system is written to the disk with the serial number of --disk, else to the smallest one that is large enough. A disk with
data that is not Naupegos' is never overwritten unless --wipe names it; disks that --data names are never touched. A disk
is empty only if its first and last 4 MiB are zeros. Disks are named by the serial number on their label, or by their
WWID; names that the machine has not reported are refused.`+meant,
		"  naupegos machine install rack1-a --hostname rack1-a --ssh-key ~/.ssh/id_ed25519.pub\n  naupegos machine install rack1-a --kubernetes v1.37.2 --disk S4EVNX0M --wipe S4EVNX0M --data ZA1B --data ZA1C\n  naupegos machine install rack1-a --none",
		cobra.ExactArgs(1), func(ctx context.Context, c *client.Client, args []string) error {
			if w.none {
				if _, err := c.Install(ctx, args[0], nil); err != nil {
					return err
				}
				_, err := fmt.Fprintf(v.h.Out, "nothing is to be installed on %s\n", args[0])
				return err
			}
			o, err := w.orderFor(ctx, c, args[0])
			if err != nil {
				return err
			}
			if _, err := c.Install(ctx, args[0], o); err != nil {
				return err
			}
			_, err = fmt.Fprintf(v.h.Out, "%s is to have %s as %s: %s\n", args[0], o.System.Kubernetes, o.Hostname, o.Digest())
			return err
		})
	f := c.Flags()
	f.StringVar(&w.order.Hostname, "hostname", "", "host name (default the machine's name)")
	f.StringVar(&w.system, "system", "", "ID of the system image, or its first digits (default the only image)")
	f.StringVar(&w.kubernetes, "kubernetes", "", "choose the system image that contains this Kubernetes release; none: the one without Kubernetes")
	f.StringVar(&w.order.Disk.Serial, "disk", "", "serial number or WWID of the system disk")
	f.StringSliceVar(&w.order.Disk.Consent, "wipe", nil, "serial number or WWID of a disk that may be overwritten, whatever is on it (repeatable)")
	f.StringSliceVar(&w.order.Data, "data", nil, "serial number or WWID of a data disk, which is never touched (repeatable)")
	f.Int64Var(&w.minimum, "min-disk", 0, "GiB that the system's disk has at least")
	f.Int64Var(&w.slotGiB, "slot-size", 0, "GiB of each of the two slots (default 8, or what the image needs)")
	f.StringSliceVar(&w.keyFiles, "ssh-key", nil, "file with public SSH keys that may log in as root (repeatable)")
	f.StringVar(&w.userData, "user-data", "", "file with a cloud-config (default none: cloud-init does nothing)")
	f.StringVar(&w.order.First, "first", order.Reboot, "how the machine starts the new system: reboot, kexec or poweroff")
	f.StringVar(&w.order.Group, "group", "", "group of machines that limits how many of them reboot at once (default "+order.Machines+")")
	f.IntVar(&w.trial, "trial", 0, "seconds that a new system has to reach the server at its first start (default 900)")
	f.BoolVar(&w.none, "none", false, "install nothing any more")
	return c
}

// orderFor returns the order for a machine.
func (w *wanted) orderFor(ctx context.Context, c *client.Client, machine string) (*order.Order, error) {
	m, err := c.Show(ctx, machine)
	if err != nil {
		return nil, err
	}
	o := w.order
	o.Schema, o.UUID, o.TrialSeconds = order.Schema, m.UUID, w.trial
	o.Disk.MinBytes, o.Disk.SlotBytes = w.minimum<<30, w.slotGiB<<30
	if o.Hostname == "" {
		o.Hostname = m.Name
	}
	if o.Hostname == "" {
		return nil, fail.New(fail.Invalid, "the machine has no name").At(m.UUID).Do("give --hostname, or name it: naupegos machine name %s NAME", machine)
	}
	if o.System, err = w.choose(ctx, c); err != nil {
		return nil, err
	}
	for _, file := range w.keyFiles {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the SSH key")
		}
		if strings.Contains(string(data), "PRIVATE KEY") {
			return nil, fail.New(fail.Invalid, "this is a private key").At(file).Do("name the file of the public one, which ends in .pub")
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				o.SSHKeys = append(o.SSHKeys, line)
			}
		}
	}
	if w.userData != "" {
		data, err := os.ReadFile(w.userData)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the user-data")
		}
		o.UserData = string(data)
	}
	return &o, o.Check()
}

// choose returns the system image that the flags select.
func (w *wanted) choose(ctx context.Context, c *client.Client) (order.System, error) {
	all, err := c.Systems(ctx)
	if err != nil {
		return order.System{}, err
	}
	var names []string
	found := slices.DeleteFunc(all.Items, func(s order.System) bool {
		names = append(names, s.Kubernetes+" "+s.ID)
		id := strings.TrimPrefix(s.ID, "sha256:")
		return !strings.HasPrefix(id, strings.TrimPrefix(w.system, "sha256:")) || w.kubernetes != "" && s.Kubernetes != w.kubernetes
	})
	switch {
	case len(names) == 0:
		return order.System{}, fail.New(fail.NotFound, "the server has no system image").Do("make one on the server: naupegos image system")
	case len(found) != 1:
		return order.System{}, fail.New(fail.Invalid, "%d of the server's system images are meant: %s", len(found), strings.Join(names, ", ")).Do("name one by --system")
	}
	return found[0], nil
}
