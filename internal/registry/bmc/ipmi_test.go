package bmc

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/clock"
	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/transport/udp"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// controller is a BMC on loopback, with a machine that is off.
func controller(t *testing.T) (Access, *mock.Chassis) {
	t.Helper()
	return controllerAt(t, fmt.Sprint("127.0.0.1:", testkit.FreePort(t)))
}

// controllerAt is a BMC at an address.
func controllerAt(t *testing.T, address string) (Access, *mock.Chassis) {
	t.Helper()
	return controllerFor(t, address, bmc.PrivilegeLevelAdministrator)
}

// controllerFor is a BMC whose user has a privilege.
func controllerFor(t *testing.T, address string, privilege bmc.PrivilegeLevel) (Access, *mock.Chassis) {
	t.Helper()
	h := mock.New()
	b := bmc.New(bmc.DeviceInfo{DeviceID: 32, IPMIVersion: 0x20}, [16]byte{1}, h, bmc.WithClock(clock.Real))
	u := testkit.Value(b.Users.Add(2, "admin"))(t)
	u.SetPassword([]byte("right"))
	u.Enabled = true
	u.ChannelAccess[1] = bmc.UserChannelAccess{MaxPrivilege: privilege, Enabled: true}
	conn := testkit.Value(udp.Listen(address))(t)
	s := server.NewServer(b, conn)
	go func() { _ = s.Serve(context.WithoutCancel(t.Context())) }() // ends with Close
	t.Cleanup(func() { s.Close(); _ = conn.Close() })
	return Access{Address: address, User: "admin", Password: []byte("right")}, h.Chassis().(*mock.Chassis)
}

func TestIPMI(t *testing.T) {
	a, chassis := controller(t)
	for _, step := range []struct {
		action string
		on     bool
	}{{"status", false}, {"on", true}, {"status", true}, {"cycle", true}, {"reset", true}, {"off", false}, {"cycle", true}} {
		on, err := Controllers{}.Power(t.Context(), a, step.action, map[string]string{"reset": FromNetwork, "cycle": FromDisk}[step.action])
		if err != nil || on != step.on {
			t.Errorf("%s: %v, %v", step.action, on, err)
		}
	}
	flags := testkit.Value(chassis.GetBootFlags(t.Context()))(t) // takes its lock, so that its other counters can be read
	if chassis.PowerCycles != 1 || chassis.ColdResets != 1 || flags.Persist {
		t.Errorf("%d cycles, %d resets, boot flags %+v", chassis.PowerCycles, chassis.ColdResets, flags)
	}
	_, err := Controllers{}.Power(t.Context(), a, "explode", AsUsual)
	testkit.Fails(t, err, fail.Invalid)
	a.Password = []byte("wrong-secret")
	_, err = Controllers{}.Power(t.Context(), a, "status", AsUsual)
	testkit.Fails(t, err, fail.Unauthorized, "password")
	if strings.Contains(err.Error(), "wrong-secret") {
		t.Errorf("the password is in %v", err)
	}
}

// TestIPMIPrivileges: the privilege OPERATOR suffices for power control; the error for a lower one names the privilege at once.
func TestIPMIPrivileges(t *testing.T) {
	a, _ := controllerFor(t, fmt.Sprint("127.0.0.1:", testkit.FreePort(t)), bmc.PrivilegeLevelOperator)
	for _, step := range []struct {
		action string
		on     bool
	}{{"status", false}, {"shutdown", false}, {"on", true}, {"cycle", true}, {"off", false}, {"shutdown", false}} {
		if on, err := (Controllers{}).Power(t.Context(), a, step.action, AsUsual); err != nil || on != step.on {
			t.Errorf("%s: %v, %v", step.action, on, err)
		}
	}
	a, _ = controllerFor(t, fmt.Sprint("127.0.0.1:", testkit.FreePort(t)), bmc.PrivilegeLevelUser)
	_, err := Controllers{}.Power(t.Context(), a, "on", AsUsual)
	testkit.Fails(t, err, fail.Unauthorized, "privilege", "OPERATOR")
	for code, kind := range map[types.CompletionCode]fail.Kind{0xd4: fail.Unauthorized, 0xd5: fail.Refused, 0xc1: fail.Refused} {
		if err := failed(types.NewResponseError(code, "said"), a, "x"); fail.KindOf(err) != kind {
			t.Errorf("%#x: %v: %v", code, fail.KindOf(err), err)
		}
	}
}

// TestIPMIv6 reaches a BMC by its IPv6 address, with and without a port.
func TestIPMIv6(t *testing.T) {
	a, _ := controllerAt(t, fmt.Sprintf("[::1]:%d", testkit.FreePort(t)))
	if on := testkit.Value(Controllers{}.Power(t.Context(), a, "on", AsUsual))(t); !on {
		t.Error("the machine is off")
	}
	for _, address := range []string{"::1", "[::1]", "[::1]:623"} {
		a.Address = address
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // nothing answers at the default port
		_, err := Controllers{}.Power(ctx, a, "status", AsUsual)
		cancel()
		if testkit.Fails(t, err, fail.Unreachable); err != nil && (strings.Contains(err.Error(), "colons") || strings.Contains(err.Error(), "resolve")) {
			t.Errorf("%s is not read: %v", address, err)
		}
	}
}
