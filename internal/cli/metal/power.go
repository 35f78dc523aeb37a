package metal

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/client"
)

func (v *Verbs) bmc() *cobra.Command {
	var o client.Order
	var file, authorities string
	var forget bool
	c := v.verb("bmc MACHINE", "Say by which BMC a physical machine's power is switched",
		"Say by which BMC a physical machine's power is switched, by IPMI 2.0 or by Redfish. The password is read from a file, and kept encrypted in the\nserver's store. A BMC with Redfish is trusted by the fingerprint of its certificate, by authorities, or by those that the server's system has.\n--forget forgets all of it."+meant,
		"  naupegos machine bmc rack1-a --address 10.9.0.11 --user admin --password-file bmc.password\n  naupegos machine bmc rack1-b --protocol redfish --address 10.9.0.12 --user admin --password-file bmc.password --authorities bmc-ca.crt", cobra.ExactArgs(1),
		func(ctx context.Context, c *client.Client, args []string) error {
			if forget {
				return v.do(ctx, c, args, "bmc", client.Order{}, "has no BMC now")
			}
			if o.Address == "" || o.User == "" || file == "" {
				return fail.New(fail.Invalid, "--address, --user and --password-file are wanted").Do("or --forget")
			}
			password, err := os.ReadFile(file)
			if err != nil {
				return fail.Wrap(fail.Invalid, err, "read the BMC's password")
			}
			if authorities != "" {
				pem, err := os.ReadFile(authorities)
				if err != nil {
					return fail.Wrap(fail.Invalid, err, "read who signs the BMC's certificate")
				}
				o.Authorities = string(pem)
			}
			o.Password = string(bytes.TrimRight(password, "\r\n"))
			return v.do(ctx, c, args, "bmc", o, "is switched by "+o.Address)
		})
	c.Flags().StringVar(&o.Address, "address", "", "the BMC's address, HOST or HOST:PORT")
	c.Flags().StringVar(&o.User, "user", "", "the user there")
	c.Flags().StringVar(&file, "password-file", "", "a file with the password")
	c.Flags().StringVar(&o.Protocol, "protocol", "ipmi", "what the BMC speaks: ipmi or redfish")
	c.Flags().StringVar(&o.Fingerprint, "fingerprint", "", "of the BMC's certificate, which is trusted then: sha256:HEX (redfish)")
	c.Flags().StringVar(&authorities, "authorities", "", "a file with the certificates of who signs the BMC's (redfish)")
	c.Flags().StringVar(&o.System, "system", "", "the machine's ID, where the BMC has several and none with its UUID (redfish)")
	c.Flags().BoolVar(&forget, "forget", false, "forget the BMC and its password")
	return c
}

func (v *Verbs) power() *cobra.Command {
	var s client.Switching
	var yes, network, disk bool
	c := v.verb("power MACHINE status|on|off|cycle|reset|shutdown", "Switch a physical machine's power",
		"Switch a physical machine's power through its BMC, or say how it is. off, cycle and reset are as if the power failed; shutdown asks the system to end.\nPods that run there are not drained."+meant,
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
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do it without asking")
	return c
}
