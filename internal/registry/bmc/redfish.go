package bmc

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Redfish switches power by Redfish, DMTF's API of controllers over HTTPS.
type Redfish struct{}

// resets lists the ResetTypes for each action, the best first: controllers say which they support.
var resets = map[string][]string{
	"on": {"On", "ForceOn"}, "off": {"ForceOff"}, "cycle": {"PowerCycle"}, "reset": {"ForceRestart"}, "shutdown": {"GracefulShutdown"},
}

// Power performs a power action on a machine, and returns whether the machine is on afterwards. After on, off and a cycle it waits for the result.
func (Redfish) Power(ctx context.Context, a Access, action, boot string) (on bool, err error) {
	if _, known := resets[action]; !known && action != "status" {
		return false, unknown(action)
	}
	r, err := open(ctx, a)
	if err != nil {
		return false, err
	}
	defer r.c.logOut(ctx)
	if boot != AsUsual {
		if err := r.bootFrom(ctx, boot); err != nil {
			return false, err
		}
	}
	return r.do(ctx, action)
}

// open logs in and finds the machine. Like each part of the work it has its own deadline, so that a slow part takes no time from the next.
func open(ctx context.Context, a Access) (*redfish, error) {
	ctx, cancel := context.WithTimeout(ctx, settles)
	defer cancel()
	c, members, err := logIn(ctx, a)
	if err != nil {
		return nil, err
	}
	r := &redfish{c: c, a: a}
	if r.s, err = c.choose(ctx, members); err != nil {
		c.logOut(ctx)
		return nil, err
	}
	return r, nil
}

// redfish is one machine of a controller.
type redfish struct {
	c *redfishClient
	a Access
	s *redfishSystem
}

// look reads the machine again.
func (r *redfish) look(ctx context.Context) error {
	s, err := r.c.system(ctx, r.s.path)
	if err != nil {
		return r.a.refused(err, "ask whether the machine is on")
	}
	r.s = s
	return nil
}

// The power states that mean on or off. Others, such as PoweringOn and Paused, mean neither.
const (
	stateOn  = "On"
	stateOff = "Off"
)

// on reports whether anything in the machine may still run.
func (r *redfish) on() bool { return r.s.state != stateOff && r.s.state != "" }

// status returns an error for a machine that is neither on nor off.
func (r *redfish) status() (bool, error) {
	switch r.s.state {
	case stateOn, stateOff:
		return r.s.state == stateOn, nil
	case "":
		return false, fail.New(fail.NotReady, "the BMC does not say whether the machine is on").At(r.a.Address).Do("look at its BMC's own pages or event log")
	}
	return false, fail.New(fail.NotReady, "the machine is neither on nor off: its BMC says %q", r.s.state).At(r.a.Address).
		Do("ask again; where that stays, look at its BMC's own pages or event log")
}

func (r *redfish) do(ctx context.Context, action string) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, settles)
	defer cancel()
	goal := map[string]string{"on": stateOn, "cycle": stateOn, "off": stateOff}[action]
	switch {
	case action == "status":
		return r.status()
	case r.s.state == stateOn && action == "on", r.s.state == stateOff && (action == "off" || action == "shutdown"):
		return r.on(), nil // many controllers refuse an action whose result is already present
	case r.s.state == "PoweringOn" && action == "on", r.s.state == "PoweringOff" && action == "off":
		return r.until(limited, goal)
	case action == "cycle" && r.s.state == stateOff: // a machine that is off can't be cycled
		return r.do(ctx, "on")
	case action == "cycle" && (r.s.state != stateOn || !r.offers(limited, "PowerCycle")):
		if _, err := r.do(ctx, "off"); err != nil {
			return r.on(), err
		}
		return r.do(ctx, "on")
	}
	at := slices.IndexFunc(resets[action], func(t string) bool { return r.offers(limited, t) })
	if at < 0 {
		return r.on(), fail.New(fail.Refused, "the BMC does not support %s; it offers %s", action, strings.Join(r.s.offered, ", ")).At(r.a.Address)
	}
	if err := r.reset(limited, resets[action][at], goal); err != nil {
		return r.on(), r.a.refused(err, "control the machine's power")
	}
	if goal != "" {
		return r.until(limited, goal)
	}
	err := r.look(limited)
	return r.on(), err
}

// offers reports whether a controller supports a ResetType. Some list theirs wrongly, but correctly in the action's own description. A controller
// that lists none is assumed to support the usual ones.
func (r *redfish) offers(ctx context.Context, kind string) bool {
	if len(r.s.offered) > 0 && !slices.Contains(r.s.offered, kind) || len(r.s.offered) == 0 {
		if r.s.info != "" {
			more, err := r.c.resetTypes(ctx, r.s.info)
			if err == nil { // an unreadable one is no information
				r.s.offered = append(r.s.offered, more...)
			}
			r.s.info = ""
		}
	}
	return len(r.s.offered) == 0 || slices.Contains(r.s.offered, kind)
}

// reset requests a reset, and follows the resulting task. If-Match is for resources that change, and few controllers require it here: reset sends it
// only to those. It ignores a refusal if the machine's power already is as wanted.
func (r *redfish) reset(ctx context.Context, kind, goal string) error {
	var resp *answer
	var err error
	for _, tag := range append([]string{""}, r.s.tags()...) {
		var again error
		if resp, again = r.c.send(ctx, http.MethodPost, r.s.target, tag, map[string]any{"ResetType": kind}); err == nil || !unmatched(again) {
			err = again
		}
		if !unmatched(again) {
			break
		}
	}
	if err == nil {
		_, err = r.c.follow(ctx, resp, settles)
		return err
	}
	if code := statusOf(err); goal != "" && (code == http.StatusBadRequest || code == http.StatusConflict) {
		if r.look(ctx) == nil && r.s.state == goal && kind != "PowerCycle" {
			return nil
		}
	}
	return err
}

// until waits for a machine to be on, or off.
func (r *redfish) until(ctx context.Context, want string) (bool, error) {
	tick := time.NewTicker(looks)
	defer tick.Stop()
	for {
		err := r.look(ctx)
		if err == nil && r.s.state == want {
			return r.on(), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return r.on(), unmoved(r.a)
		}
	}
}

// sameUUID compares UUIDs. Firmware may have reversed the bytes of the first three parts.
func sameUUID(one, other string) bool {
	plain := func(u string) string { return strings.ReplaceAll(strings.ToLower(u), "-", "") }
	a, b := plain(one), plain(other)
	if len(a) != 32 || len(b) != 32 {
		return false
	}
	turned := ""
	for _, at := range []int{6, 4, 2, 0, 10, 8, 14, 12} {
		turned += b[at : at+2]
	}
	return a == b || a == turned+b[16:]
}
