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
	var file string
	var forget bool
	c := v.verb("bmc MACHINE", "Say by which BMC a physical machine's power is switched",
		"Say by which BMC (IPMI 2.0 over the network) a physical machine's power is switched. The password is read from a file, and kept encrypted in the\nserver's store. --forget forgets both."+meant,
		"  naupegos machine bmc rack1-a --address 10.9.0.11 --user admin --password-file bmc.password", cobra.ExactArgs(1),
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
			o.Password = string(bytes.TrimRight(password, "\r\n"))
			return v.do(ctx, c, args, "bmc", o, "is switched by "+o.Address)
		})
	c.Flags().StringVar(&o.Address, "address", "", "the BMC's address, HOST or HOST:PORT")
	c.Flags().StringVar(&o.User, "user", "", "the user there")
	c.Flags().StringVar(&file, "password-file", "", "a file with the password")
	c.Flags().BoolVar(&forget, "forget", false, "forget the BMC and its password")
	return c
}

func (v *Verbs) power() *cobra.Command {
	var s client.Switching
	var yes bool
	c := v.verb("power MACHINE status|on|off|cycle|reset|shutdown", "Switch a physical machine's power",
		"Switch a physical machine's power through its BMC, or say how it is. off, cycle and reset are as if the power failed; shutdown asks the system to end.\nPods that run there are not drained."+meant,
		"  naupegos machine power rack1-a status\n  naupegos machine power rack1-a cycle --network --yes", cobra.ExactArgs(2),
		func(ctx context.Context, c *client.Client, args []string) error {
			s.Action = args[1]
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
	c.Flags().BoolVar(&s.Network, "network", false, "boot from the network at the next start")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do it without asking")
	return c
}
