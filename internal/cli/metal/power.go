package metal

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/routes/client"
)

func (v *Verbs) bmc() *cobra.Command {
	var o client.Order
	var file, authorities string
	var forget bool
	c := v.verb("bmc MACHINE", "Set the BMC that controls a physical machine's power",
		"Set the BMC that controls a physical machine's power, by IPMI 2.0 or by Redfish. The password is read from a file, and kept\nencrypted in the server's store. A Redfish BMC is trusted by the fingerprint of its certificate, by the authorities in a\nfile, or by those that the server's system trusts. --forget removes the BMC and its password."+meant,
		"  naupegos machine bmc rack1-a --address 10.9.0.11 --user admin --password-file bmc.password\n  naupegos machine bmc rack1-b --protocol redfish --address 10.9.0.12 --user admin --password-file bmc.password --authorities bmc-ca.crt", cobra.ExactArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			if forget {
				return v.do(ctx, c, args, "bmc", client.Order{}, "has no BMC now")
			}
			if o.Address == "" || o.User == "" || file == "" {
				return fail.New(fail.Invalid, "--address, --user and --password-file are required").Do("give all three, or --forget to remove the BMC")
			}
			password, err := os.ReadFile(file)
			if err != nil {
				return fail.Wrap(fail.Invalid, err, "read the BMC's password")
			}
			if authorities != "" {
				pem, err := os.ReadFile(authorities)
				if err != nil {
					return fail.Wrap(fail.Invalid, err, "read the authority of the BMC's certificate")
				}
				o.Authorities = string(pem)
			}
			o.Password = string(bytes.TrimRight(password, "\r\n"))
			return v.do(ctx, c, args, "bmc", o, "is controlled by "+o.Address)
		})
	c.Flags().StringVar(&o.Address, "address", "", "the BMC's address, HOST or HOST:PORT")
	c.Flags().StringVar(&o.User, "user", "", "user of the BMC")
	c.Flags().StringVar(&file, "password-file", "", "file with the password")
	c.Flags().StringVar(&o.Protocol, "protocol", "ipmi", "protocol of the BMC: ipmi or redfish")
	c.Flags().StringVar(&o.Fingerprint, "fingerprint", "", "trust the BMC's certificate with this fingerprint, sha256:HEX (redfish)")
	c.Flags().StringVar(&authorities, "authorities", "", "file with the authorities that sign the BMC's certificate (redfish)")
	c.Flags().StringVar(&o.System, "system", "", "ID of the machine's system, if the BMC has several and none with its UUID (redfish)")
	c.Flags().BoolVar(&forget, "forget", false, "forget the BMC and its password")
	return c
}

func (v *Verbs) power() *cobra.Command {
	var s client.Switching
	var yes, network, disk bool
	c := v.verb("power MACHINE status|on|off|cycle|reset|shutdown", "Control a physical machine's power",
		"Control a physical machine's power through its BMC, or print its state. off, cycle and reset act as if the power had failed;\nshutdown asks the operating system to shut down. The node is not drained first."+meant,
		"  naupegos machine power rack1-a status\n  naupegos machine power rack1-a cycle --network --yes", cobra.ExactArgs(2),
		func(ctx context.Context, c *client.Client, args []string) error {
			s.Action = args[1]
			switch {
			case network && disk:
				return fail.New(fail.Invalid, "--network and --disk were both given: the machine boots from one of them").Do("take one of them")
			case network:
				s.Boot = "network"
			case disk:
				s.Boot = "disk"
			}
			if s.Action != "status" && s.Action != "on" {
				if err := v.h.Confirm(yes, s.Action+" "+args[0]+"?"); err != nil {
					return err
				}
			}
			got, err := c.Power(ctx, args[0], s)
			if err != nil {
				return err
			}
			state := "off"
			if got.On {
				state = "on"
			}
			_, err = fmt.Fprintf(v.h.Out, "%s is %s\n", args[0], state)
			return err
		})
	c.Flags().BoolVar(&network, "network", false, "boot from the network at the next start, once")
	c.Flags().BoolVar(&disk, "disk", false, "boot from the disk at the next start, once")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return c
}
