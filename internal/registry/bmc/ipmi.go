package bmc

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/naupegos/naupegos/internal/fail"
)

const port = 623

// unknownUser is the library's text for RAKP status 0x0d.
const unknownUser = "Unauthorized name"

// unauthorizedCode is the completion code for a command that the session's privilege does not allow.
const unauthorizedCode = 0xd4

// IPMI switches power by IPMI.
type IPMI struct{}

// Power performs a power action on a machine, and returns whether the machine is on afterwards. After on and off it waits for that state. boot is the
// source of the next boot.
func (IPMI) Power(ctx context.Context, a Access, action, boot string) (on bool, err error) {
	control, known := map[string]chassis.ChassisControl{"on": chassis.ChassisControlPowerUp, "off": chassis.ChassisControlPowerDown,
		"cycle": chassis.ChassisControlPowerCycle, "reset": chassis.ChassisControlHardReset, "shutdown": chassis.ChassisControlSoftShutdown}[action]
	if !known && action != "status" {
		return false, unknown(action)
	}
	ctx, cancel := context.WithTimeout(ctx, settles)
	defer cancel()
	c, err := connect(ctx, a)
	if err != nil {
		return false, err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // an unclosed session ends by itself
	if boot != AsUsual {
		from := types.BootDeviceSelectorForcePXE
		if boot == FromDisk {
			from = types.BootDeviceSelectorForceHardDrive
		}
		kind := types.BIOSBootTypeEFI
		if a.Firmware == "bios" { // some boot from disk if told to boot by EFI
			kind = types.BIOSBootTypeLegacy
		}
		if err := c.SetBootDevice(ctx, from, kind, false); err != nil {
			return false, failed(err, a, "make the machine boot from the "+boot)
		}
	}
	if known {
		if on, err = power(ctx, c, a); err != nil {
			return false, err
		}
		if action == "shutdown" && !on {
			return false, nil // many controllers refuse an action whose result is already present
		}
		if action == "cycle" && !on { // a machine that is off can't be cycled
			action, control = "on", chassis.ChassisControlPowerUp
		}
		if _, err := c.ChassisControl(ctx, control); err != nil {
			return on, failed(err, a, "control the machine's power")
		}
	}
	switch action {
	case "on", "cycle":
		return until(ctx, c, a, true)
	case "off":
		return until(ctx, c, a, false)
	}
	return power(ctx, c, a)
}

// connect opens a session. It tries cipher suite 17 first; many controllers have only 3.
func connect(ctx context.Context, a Access) (*client.Client, error) {
	host, number, err := net.SplitHostPort(a.Address)
	if err != nil {
		host, number = a.Address, strconv.Itoa(port)
	}
	n, err := strconv.Atoi(number)
	if err != nil || host == "" || a.User == "" {
		return nil, fail.New(fail.Invalid, "the machine's BMC is not named by an address and a user").At(a.Address)
	}
	if a.allowed != nil {
		if host, err = a.resolve(ctx, strings.Trim(host, "[]")); err != nil {
			return nil, err
		}
	}
	if strings.Contains(host, ":") { // the library appends ":PORT"
		host = "[" + strings.Trim(host, "[]") + "]"
	}
	for _, level := range []types.PrivilegeLevel{types.PrivilegeLevelAdministrator, types.PrivilegeLevelOperator} { // sufficient for power
		c, err := client.NewClient(host, n, a.User, string(a.Password))
		if err != nil {
			return nil, failed(err, a, "reach the machine's BMC")
		}
		c = c.WithInterface(client.InterfaceLanplus).WithTimeout(answers).WithRetry(2).WithCipherSuiteID(types.CipherSuiteID17, types.CipherSuiteID3).WithMaxPrivilegeLevel(level)
		err = c.Connect(ctx)
		switch {
		case err == nil:
			return c, nil
		case level == types.PrivilegeLevelOperator || !unprivileged(err):
			return nil, failed(err, a, "log in to the machine's BMC")
		}
		_ = c.Close(context.WithoutCancel(ctx)) // there is no session, or one that ends by itself
	}
	return nil, fail.New(fail.Internal, "no privilege level is tried").At(a.Address) // never
}

// resolve returns the address of a controller, which the library would otherwise look up itself.
func (a Access) resolve(ctx context.Context, host string) (string, error) {
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(ips) == 0 {
		return "", fail.Wrap(fail.Unreachable, err, "find the BMC's address").At(a.Address)
	}
	return ips[0].Unmap().String(), a.may(ips[0])
}

// unprivileged reports whether a controller refuses a privilege level. The library joins the errors of several attempts as text.
func unprivileged(err error) bool {
	return slices.ContainsFunc([]string{"Unauthorized role of privilege level", "cc: 0x81", "cc: 0x86"}, func(t string) bool { return strings.Contains(err.Error(), t) })
}

func power(ctx context.Context, c *client.Client, a Access) (bool, error) {
	s, err := c.GetChassisStatus(ctx)
	if err != nil {
		return false, failed(err, a, "ask whether the machine is on")
	}
	return s.PowerIsOn, nil
}

// until waits for a machine to be on, or off.
func until(ctx context.Context, c *client.Client, a Access, want bool) (bool, error) {
	tick := time.NewTicker(looks)
	defer tick.Stop()
	for {
		on, err := power(ctx, c, a)
		if err == nil && on == want {
			return on, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err != nil {
				return on, err
			}
			return on, unmoved(a)
		}
	}
}

func failed(err error, a Access, what string) error {
	var timeout net.Error
	said, answered := types.IsResponseError(err)
	switch {
	case answered && said.CompletionCode() == unauthorizedCode, unprivileged(err):
		return fail.Wrap(fail.Unauthorized, err, "%s: the user's privilege does not allow it", what).At(a.Address).
			Do("give the user the privilege OPERATOR or ADMINISTRATOR on the BMC's LAN channel, or name another one: naupegos machine bmc MACHINE")
	case answered:
		return fail.Wrap(fail.Refused, err, "%s: the BMC refuses it", what).At(a.Address).Do("look at its BMC's own pages or event log")
	case strings.Contains(err.Error(), client.ErrRAKPAuthentication.Error()), strings.Contains(err.Error(), unknownUser): // the library joins the errors of several attempts as text
		return fail.New(fail.Unauthorized, "%s: user or password are not accepted", what).At(a.Address).Do("naupegos machine bmc MACHINE sets them")
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fail.Wrap(fail.Unreachable, err, "%s", what).At(a.Address).Do("see that IPMI over LAN is on there, and UDP port %d is open", port)
	}
	return fail.Wrap(fail.Unreachable, err, "%s", what).At(a.Address)
}
