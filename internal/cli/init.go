package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/sample"
	"github.com/naupegos/naupegos/internal/cli/form"
	"github.com/naupegos/naupegos/internal/cli/hostkeys"
	"github.com/naupegos/naupegos/internal/cli/terminal"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/remote"
)

func newInitCmd(a *App) *cobra.Command {
	o := sample.Options{}
	var interactive bool
	var hosts []string
	c := &cobra.Command{
		Use:   "init",
		Short: "Print a Cluster document to start from",
		Long: `Print a short, commented Cluster document to start from. Flags fill in its fields; --interactive asks for them.
--with adds examples of further sections as comments: remove the marks, and adapt the values.`,
		Example: `  naupegos init > cluster.yaml
  naupegos init --name harbour --control-planes 3 --workers 5 > harbour.yaml
  naupegos init --provider hosts --control-planes 1 --host 10.0.0.11 --host 10.0.0.12 > cluster.yaml
  naupegos init --provider openstack --cloud mycloud --flavor m1.large --image debian-12 --endpoint octavia > harbour.yaml
  naupegos init --with proxy,registries,identity > cluster.yaml
  naupegos init --interactive > cluster.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if interactive {
				if err := form.Ask(c.Context(), a.In, a.Err, &o); err != nil {
					return err
				}
			}
			if len(hosts) > 0 {
				if err := a.findHosts(c, &o, hosts); err != nil {
					return err
				}
			}
			if err := checkProviderFlags(c.Flags(), o.Provider); err != nil {
				return err
			}
			if err := checkCounts(&o); err != nil {
				return err
			}
			b, err := sample.New(o)
			if err != nil {
				return err
			}
			if _, err = a.Out.Write(b); err == nil && (interactive || len(hosts) > 0) {
				fmt.Fprintf(a.Err, "Next: naupegos plan -f %s\n", terminal.FileOf(a.Out, "FILE"))
			}
			return err
		},
	}
	c.Flags().StringArrayVar(&hosts, "host", nil, "with provider hosts: [ROLE=]ADDRESS of a machine, whose SSH host key is fetched and shown (repeatable); without ROLE, the first ones are control-plane machines")
	c.Flags().StringVar(&o.Name, "name", "demo", "name of the cluster")
	c.Flags().StringVar(&o.Provider, "provider", "local", "where machines come from: local, hosts, openstack or metal")
	c.Flags().IntVar(&o.ControlPlanes, "control-planes", 3, "number of control-plane machines: 1, 3 or 5")
	c.Flags().IntVar(&o.Workers, "workers", 2, "number of worker machines; with 0, workloads run on the control plane")
	c.Flags().IntVar(&o.Gateways, "gateways", 2, "number of gateway machines")
	c.Flags().StringVar(&o.Kubernetes, "kubernetes", v1alpha1.LatestKubernetes, "Kubernetes release")
	c.Flags().StringVar(&o.EtcdMode, "etcd", "stacked", "where etcd runs: stacked (static pods) or service (systemd units)")
	c.Flags().StringVar(&o.Endpoint, "endpoint", "", "where the API is reached: gateways, octavia, address or direct (default: direct with one control-plane machine and no gateways, else gateways)")
	c.Flags().StringVar(&o.Address, "address", "", "host[:port] of your load balancer, for endpoint address")
	c.Flags().StringVar(&o.Cloud, "cloud", "", "with provider openstack: name of the cloud in clouds.yaml (default $OS_CLOUD or the OS_* variables)")
	c.Flags().StringVar(&o.ExternalNetwork, "external-network", "", "with provider openstack: network that floating IPs come from (default the cloud's only one)")
	c.Flags().StringVar(&o.Flavor, "flavor", "", "with provider openstack: flavor of the machines (default m1.medium)")
	c.Flags().StringVar(&o.Image, "image", "", "with provider openstack: image of the machines (default debian-12)")
	c.Flags().StringSliceVar(&o.With, "with", nil, "sections to add as commented examples: "+strings.Join(sample.Sections(), ", "))
	c.Flags().BoolVarP(&interactive, "interactive", "i", false, "ask for the values in a form")
	return c
}

// findHosts makes the machines of o from addresses.
func (a *App) findHosts(c *cobra.Command, o *sample.Options, hosts []string) (err error) {
	if o.Provider != v1alpha1.ProviderHosts {
		return fail.New(fail.Invalid, "--host has no meaning with provider %s", o.Provider).Do("leave it out, or choose --provider hosts")
	}
	if !c.Flags().Changed("control-planes") && len(hosts) < 3 {
		o.ControlPlanes = 1
	}
	o.Hosts, err = hostkeys.Machines(c.Context(), hosts, o.ControlPlanes, remote.ScanHostKey, a.Err, func(question string) error { return a.confirm(&runFlags{}, question) })
	o.ControlPlanes, o.Workers = hostkeys.Count(o.Hosts, v1alpha1.RoleControlPlane), hostkeys.Count(o.Hosts, v1alpha1.RoleWorker)
	if o.Gateways = hostkeys.Count(o.Hosts, v1alpha1.RoleGateway); err == nil && o.Gateways > 0 {
		o.VIP = v1alpha1.MadeUpVIP // a placeholder, which validation reports
	}
	return err
}

// openStackFlags are the flags that apply only to provider openstack.
var openStackFlags = []string{"cloud", "external-network", "flavor", "image"}

// checkProviderFlags refuses flags that the provider would ignore.
func checkProviderFlags(flags *pflag.FlagSet, provider string) error {
	if provider == v1alpha1.ProviderOpenStack {
		return nil
	}
	for _, name := range openStackFlags {
		if flags.Changed(name) {
			return fail.New(fail.Invalid, "--%s has no meaning with provider %s", name, provider).Do("leave it out, or choose --provider openstack")
		}
	}
	return nil
}

// checkCounts refuses impossible numbers of machines, and marks 0 workers for New, which would take 0 as unset.
func checkCounts(o *sample.Options) error {
	gateways := o.Endpoint == v1alpha1.EndpointGateways || o.Endpoint == "" && o.Address == "" && o.ControlPlanes != 1
	switch {
	case !slices.Contains([]int{1, 3, 5}, o.ControlPlanes):
		return fail.New(fail.Invalid, "--control-planes %d is not 1, 3 or 5", o.ControlPlanes).
			Do("etcd keeps its quorum with an odd number of members: 2 tolerate no more failures than 1")
	case o.Workers < 0 || o.Workers > form.MaxWorkers:
		return fail.New(fail.Invalid, "--workers %d is not between 0 and %d", o.Workers, form.MaxWorkers).Do("with 0 workloads run on the control plane")
	case o.Gateways < 0:
		return fail.New(fail.Invalid, "--gateways %d is negative", o.Gateways).Do("leave it out for 2")
	case o.Gateways == 0 && gateways:
		return fail.New(fail.Invalid, "--gateways 0: the API is reached through gateways").Do("leave it out, or choose another --endpoint")
	}
	if o.Workers == 0 {
		o.Workers = sample.NoWorkers
	}
	return nil
}
