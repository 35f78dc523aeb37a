package metal

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/server/routes/client"
	"github.com/naupegos/naupegos/internal/tool"
)

// Filter selects the machines of a list.
type Filter struct {
	query  client.Query
	labels []string
}

// Labels returns the conditions of -l, as a selector.
func (f *Filter) Labels() string { return strings.Join(f.labels, ",") }

// Bind adds the flags of a filter.
func (f *Filter) Bind(c *cobra.Command) {
	q := &f.query.Query
	c.Flags().StringVar(&q.State, "state", "", "with --server: only machines in this state")
	c.Flags().StringVar(&q.Approval, "approval", "", "with --server: only machines that are pending, approved or rejected")
	c.Flags().StringVar(&q.Cluster, "cluster", "", "with --server: only machines of this cluster")
	c.Flags().StringVar(&q.Role, "role", "", "with --server: only machines of this role")
	c.Flags().StringSliceVarP(&f.labels, "label", "l", nil, "with --server: only machines with this label, KEY=VALUE (repeatable); with NAME: only machines with this field of -o json, such as role=worker")
	c.Flags().BoolVar(&q.Free, "free", false, "with --server: only machines that belong to no cluster")
	c.Flags().StringVar(&q.Unusable, "unusable", "", "with --server: only machines that belong to no cluster and can't be used: any, unapproved, maintenance, failed or diskless")
	c.Flags().StringVar(&q.Text, "match", "", "with --server: only machines with this in their UUID, name or MAC addresses")
	c.Flags().StringVar(&q.Order, "sort", "", "with --server: sort by uuid, name, state or seen; -name is the other way")
}

// List prints the machines of the server.
func (v *Verbs) List(ctx context.Context, f *Filter, out *output.Format) error {
	c, err := v.client()
	if err != nil {
		return err
	}
	if f.query.Labels, err = pairs(f.labels); err != nil {
		return err
	}
	all := []client.Machine{}
	for {
		q := f.query
		q.Limit, q.Offset = 1000, len(all)
		page, err := c.List(ctx, q)
		if err != nil {
			return err
		}
		all = append(all, page.Items...)
		if len(page.Items) == 0 || len(all) >= page.Total {
			break
		}
	}
	return out.Print(v.h.Out, all, func(w io.Writer) error { return table(w, all, time.Now()) })
}

func table(w io.Writer, all []client.Machine, now time.Time) error {
	var notes output.Footnotes
	t := output.NewTable(w)
	t.Head("NAME\tMAC\tADDRESS\tSTATE\tAPPROVAL\tCLUSTER\tPOOL\tDISKS\tSEEN\tREMARK")
	for _, m := range all {
		name, cluster, pool := m.Name, m.Cluster, ""
		if name == "" {
			name = m.UUID
		}
		if m.Pool != "" {
			pool = fmt.Sprintf("%s %d", m.Pool, m.Seat)
		}
		t.Row("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, m.MAC, output.Dash(m.Address), m.State, m.Approval, output.Dash(cluster), output.Dash(pool),
			output.Dash(m.Disks), ago(m.Seen, now), output.Dash(notes.Cell(m.UUID, remark(m))))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return notes.Write(w)
}

// remark returns a noteworthy fact about a machine.
func remark(m client.Machine) string {
	switch {
	case len(m.Claims) > 1:
		var keys []string
		for _, c := range m.Claims {
			keys = append(keys, c.Key)
		}
		return "conflict: several claim to be this machine, with the keys " + strings.Join(keys, ", ")
	case len(m.Rivals) > 0:
		return "conflict: its MAC addresses are claimed also by " + strings.Join(m.Rivals, ", ")
	case m.Asks != "" && m.Approval == "approved":
		return "asks for approval of another key: " + m.Asks
	case m.Maintenance != "":
		return "maintenance: " + m.Maintenance
	case m.Why != "" && (m.State == "failed" || m.State == "denied"):
		return m.Why
	case m.UpToDate != nil && !*m.UpToDate:
		return "outdated"
	}
	return ""
}

func ago(at, now time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return now.Sub(at).Round(time.Second).String() + " ago"
}

// show returns machine show.
func (v *Verbs) show() *cobra.Command {
	var out output.Format
	c := v.verb("show MACHINE", "Show a physical machine: facts, decisions, boots and events",
		"Show everything known about a physical machine: what it is, what was decided about it, its boots, and its events."+meant,
		"  naupegos machine show rack1-a\n  naupegos machine show 52:54:00:aa:bb:cc -o json", cobra.ExactArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			d, err := c.Show(ctx, args[0])
			if err != nil {
				return err
			}
			return out.Print(v.h.Out, d, func(w io.Writer) error { return detail(w, d) })
		})
	out.Bind(c)
	return c
}

// progressed describes the progress within a stage of an installation.
func progressed(p *registry.Progress) string {
	switch {
	case p.Total > 0:
		return fmt.Sprintf(": %d of %d MiB (%d %%)", p.Done>>20, p.Total>>20, 100*p.Done/p.Total)
	case p.Done > 0:
		return fmt.Sprintf(": %d MiB", p.Done>>20)
	}
	return ""
}

func detail(w io.Writer, d client.Detail) error {
	t := output.NewTable(w)
	line := func(name, value string) {
		if value != "" {
			t.Row("%s\t%s\n", name, value)
		}
	}
	line("UUID", d.UUID)
	line("Name", d.Name)
	line("State", strings.TrimSuffix(d.State+": "+d.Why, ": "))
	line("Approval", strings.TrimSpace(d.Approval+" "+by(d)))
	line("Key", d.Key)
	line("Asks with", d.Asks)
	for _, c := range d.Claims {
		line("Conflict", strings.TrimSpace(fmt.Sprintf("%s, MAC %s, since %s", c.Key, strings.Join(c.MACs, " "), c.Since.Local().Format(time.DateTime))+strings.TrimSuffix(" from "+c.From, " from ")))
	}
	for _, other := range d.Rivals {
		line("Conflict", other+" claims its MAC addresses, too")
	}
	if d.Cluster != "" {
		line("Cluster", fmt.Sprintf("%s, %s %d", d.Cluster, d.Pool, d.Seat))
	}
	line("Roles", strings.Join(d.Roles, ", "))
	for _, k := range slices.Sorted(maps.Keys(d.Labels)) {
		line("Label", k+"="+d.Labels[k])
	}
	line("Maintenance", d.Maintenance)
	line("Can't be used", d.Unusable)
	if f := d.Facts; f != nil {
		if s := f.System; s != nil {
			line("Ignored", strings.Join(s.Ignored, ", "))
			line("Hardware", strings.Join(strings.Fields(s.Manufacturer+" "+s.Product+" "+s.Serial), " "))
			line("CPU", strings.TrimSpace(fmt.Sprintf("%d × %s, %d MiB", s.CPUs, s.CPU, s.MemoryBytes>>20)))
			line("BMC", s.BMC)
		}
		for _, i := range f.Interfaces {
			text := strings.Join(strings.Fields(i.Name+" "+i.MAC+" "+i.CIDRv4+" "+strings.Join(i.FQDN, " ")), " ")
			if i.Ignored != "" {
				text += "; does not identify the machine: " + i.Ignored
			}
			line("Interface", text)
		}
		for _, n := range f.LLDP.Data.Interfaces {
			line("Neighbour", fmt.Sprintf("%s is at %s %s, port %s", n.Name, n.Chassis.Name, n.Chassis.ID, n.Port.ID))
		}
		for _, k := range f.Disks {
			line("Disk", strings.Join(strings.Fields(fmt.Sprintf("%s %d bytes %s %s %s %s", k.Path, k.SizeBytes, k.Type, k.Model, strings.TrimSpace(k.Serial+" "+k.WWID), strings.TrimSpace(strings.Join(k.Holds, ",")+" "+k.Obstacles()))), " "))
		}
	}
	if d.Report != nil {
		line("Installed", d.Report.Digest)
	}
	line("Wanted", d.Wanted)
	line("Update strategy", d.Strategy)
	if p := d.Progress; p != nil {
		line("Installation", p.Stage+progressed(p)+", "+p.At.Local().Format(time.DateTime))
	}
	for _, b := range d.Boots {
		line("Boot", b.At.Local().Format(time.DateTime)+" "+b.ID)
	}
	for _, e := range d.Events {
		line("Event", e.At.Local().Format(time.DateTime)+" "+strings.TrimSpace(e.What+" "+e.Detail))
	}
	return t.Flush()
}

func by(d client.Detail) string {
	if d.ApprovedBy == "" {
		return ""
	}
	return "by " + d.ApprovedBy
}

// journal returns machine journal.
func (v *Verbs) journal() *cobra.Command {
	var boot string
	var install bool
	c := v.verb("journal MACHINE", "Print the journal of a physical machine's boot",
		"Print the journal of a physical machine's boot: of a discovery or, with --install, of an installation."+meant,
		"  naupegos machine journal rack1-a\n  naupegos machine journal rack1-a --install", cobra.ExactArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			kind := "discovery"
			if install {
				kind = "install"
			}
			j, err := c.Journal(ctx, args[0], boot, kind)
			if err != nil {
				return err
			}
			for _, line := range j.Lines {
				if _, err := fmt.Fprintln(v.h.Out, tool.Printable(line)); err != nil {
					return err
				}
			}
			return nil
		})
	c.Flags().StringVar(&boot, "boot", "", "the boot's ID, as machine show lists them (default the latest that has such a journal)")
	c.Flags().BoolVar(&install, "install", false, "of an installation")
	return c
}

// expiry formats a time; zero is never.
func expiry(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.Local().Format(time.DateTime)
}

// locks returns machine locks.
func (v *Verbs) locks() *cobra.Command {
	var out output.Format
	c := v.verb("locks", "List the physical machines that are being installed or may reboot",
		"List the locks that machines hold now: to be installed (group install), or to reboot (groups that begin with reboot/).", "  naupegos machine locks", cobra.NoArgs,
		func(ctx context.Context, c *client.Client, _ []string) error {
			l, err := c.Locks(ctx)
			if err != nil {
				return err
			}
			return out.Print(v.h.Out, l.Items, func(w io.Writer) error {
				t := output.NewTable(w)
				t.Head("GROUP\tHOLDER\tMACHINE\tSINCE\tEXPIRES")
				for _, s := range l.Items {
					t.Row("%s\t%s\t%s\t%s\t%s\n", s.Group, s.Holder, s.Detail, s.Acquired.Local().Format(time.DateTime), expiry(s.Expires))
				}
				return t.Flush()
			})
		})
	out.Bind(c)
	return c
}

// pairs parses KEY=VALUE.
func pairs(texts []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range texts {
		k, value, ok := strings.Cut(text, "=")
		if !ok || k == "" {
			return nil, fail.New(fail.Invalid, "%q is not a label", text).Do("write KEY=VALUE")
		}
		out[k] = value
	}
	return out, nil
}
