package bmc

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/naupegos/naupegos/internal/fail"
)

// Redfish switches power by Redfish, DMTF's API of controllers over HTTPS.
type Redfish struct{}

// resets are what is asked of a controller for each action, the best first: controllers say which they have.
var resets = map[string][]schemas.ResetType{
	"on": {schemas.OnResetType, schemas.ForceOnResetType}, "off": {schemas.ForceOffResetType}, "cycle": {schemas.PowerCycleResetType},
	"reset": {schemas.ForceRestartResetType}, "shutdown": {schemas.GracefulShutdownResetType},
}

// targets are what a machine may be told to boot from, the best first.
var targets = map[string][]schemas.BootSource{
	FromNetwork: {schemas.PxeBootSource, schemas.UefiHTTPBootSource}, FromDisk: {schemas.HddBootSource},
}

// Power does something with a machine's power, and returns whether it is on then. After on, off and a cycle it waits until that is so.
func (Redfish) Power(ctx context.Context, a Access, action, boot string) (on bool, err error) {
	if _, known := resets[action]; !known && action != "status" {
		return false, unknown(action)
	}
	ctx, cancel := context.WithTimeout(ctx, settles)
	defer cancel()
	c, err := gofish.ConnectContext(ctx, gofish.ClientConfig{Endpoint: a.origin(), Username: a.User, Password: string(a.Password), HTTPClient: a.client(), NoModifyTransport: true})
	if err != nil {
		return false, a.refused(err, "log in to the machine's BMC")
	}
	defer c.Logout() // controllers have few sessions; where ctx has ended, gofish takes one that has not
	r := redfish{c: c, a: a}
	if r.s, err = r.system(); err != nil {
		return false, err
	}
	if boot != AsUsual {
		if err := r.boot(boot); err != nil {
			return false, err
		}
	}
	return r.do(ctx, action)
}

// redfish is a session with a controller.
type redfish struct {
	c *gofish.APIClient
	a Access
	s *schemas.ComputerSystem
}

// system returns the machine, of the one or several that the controller has.
func (r redfish) system() (*schemas.ComputerSystem, error) {
	all, err := r.c.Service.Systems()
	if err != nil {
		return nil, r.a.refused(err, "ask the BMC for its machine")
	}
	var names []string
	for _, s := range all {
		names = append(names, s.ID)
		if s.ID == r.a.System || r.a.System == "" && (len(all) == 1 || sameUUID(s.UUID, r.a.UUID)) {
			return s, nil
		}
	}
	if len(all) == 0 {
		return nil, fail.New(fail.NotFound, "the BMC has no machine").At(r.a.Address)
	}
	slices.Sort(names)
	return nil, fail.New(fail.NotFound, "which of the BMC's machines is meant is not known: it has %s", strings.Join(names, ", ")).At(r.a.Address).Do("name it: naupegos machine bmc MACHINE --system ID")
}

// sameUUID compares UUIDs, of which firmware may have turned the bytes of the first three parts round.
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

// boot has the machine boot from something once. Where it has changed since it was read, it is read again.
func (r *redfish) boot(from string) error {
	for tries := 3; ; tries-- {
		target := targets[from][0]
		if offered := r.s.Boot.AllowableBootSourceOverrideTargetValues; len(offered) > 0 {
			at := slices.IndexFunc(targets[from], func(t schemas.BootSource) bool { return slices.Contains(offered, t) })
			if at < 0 {
				return fail.New(fail.Refused, "the BMC can't have its machine boot from the %s: it offers %v", from, offered).At(r.a.Address)
			}
			target = targets[from][at]
		}
		err := r.s.SetBoot(&schemas.Boot{BootSourceOverrideTarget: target, BootSourceOverrideEnabled: schemas.OnceBootSourceOverrideEnabled})
		if err == nil {
			return nil
		}
		if !schemas.Is412PreconditionFailed(err) || tries == 1 {
			return r.a.refused(err, "have the machine boot from the "+from)
		}
		if err := r.look(); err != nil {
			return err
		}
	}
}

// look reads the machine again.
func (r *redfish) look() error {
	s, err := schemas.GetComputerSystem(r.c, r.s.ODataID)
	if err != nil {
		return r.a.refused(err, "ask whether the machine is on")
	}
	r.s = s
	return nil
}

func (r *redfish) on() bool {
	return r.s.PowerState == schemas.OnPowerState || r.s.PowerState == schemas.PoweringOffPowerState
}

func (r *redfish) do(ctx context.Context, action string) (bool, error) {
	offered, err := r.s.GetSupportedResetTypes()
	if err != nil && len(offered) == 0 {
		offered = nil // it does not say what it has: it is asked for the usual
	}
	has := func(t schemas.ResetType) bool { return len(offered) == 0 || slices.Contains(offered, t) }
	switch {
	case action == "status", action == "on" && r.s.PowerState == schemas.OnPowerState, (action == "off" || action == "shutdown") && r.s.PowerState == schemas.OffPowerState:
		return r.on(), nil // many controllers refuse what is so already
	case action == "cycle" && !r.on(): // a machine that is off can't be cycled
		return r.do(ctx, "on")
	case action == "cycle" && !has(schemas.PowerCycleResetType):
		if _, err := r.do(ctx, "off"); err != nil {
			return r.on(), err
		}
		return r.do(ctx, "on")
	}
	at := slices.IndexFunc(resets[action], has)
	if at < 0 {
		return r.on(), fail.New(fail.Refused, "the BMC can't do that: %s is not among what it offers, %v", action, offered).At(r.a.Address)
	}
	task, err := r.s.Reset(resets[action][at])
	if err == nil && task != nil {
		err = r.follow(ctx, task)
	}
	if err != nil {
		return r.on(), r.a.refused(err, "control the machine's power")
	}
	switch action {
	case "on", "cycle":
		return r.until(ctx, schemas.OnPowerState)
	case "off":
		return r.until(ctx, schemas.OffPowerState)
	}
	err = r.look()
	return r.on(), err
}

// follow waits for a task to end. One that nobody knows any more has ended.
func (r *redfish) follow(ctx context.Context, task *schemas.TaskMonitorInfo) error {
	at, err := url.Parse(task.TaskMonitor)
	if err != nil || task.TaskMonitor == "" {
		return nil //nolint:nilerr // it can't be asked; what the power is can
	}
	task.TaskMonitor = at.RequestURI()
	resp, err := schemas.WaitForTaskMonitor(ctx, r.c, looks, task, nil)
	if err != nil {
		if code := status(err); code == http.StatusNotFound || code == http.StatusGone {
			return nil
		}
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	var t struct {
		TaskState schemas.TaskState
		Messages  []struct{ Message string }
	}
	if json.NewDecoder(resp.Body).Decode(&t) != nil {
		return nil // no body, or what the action itself would have answered
	}
	if slices.Contains([]schemas.TaskState{schemas.ExceptionTaskState, schemas.KilledTaskState, schemas.CancelledTaskState}, t.TaskState) {
		why := fmt.Sprintf("the BMC's task ended as %s", t.TaskState)
		for _, m := range t.Messages {
			why += ": " + m.Message
		}
		return fail.New(fail.Refused, "%s", why).At(r.a.Address)
	}
	return nil
}

// until waits for a machine to be on, or off.
func (r *redfish) until(ctx context.Context, want schemas.PowerState) (bool, error) {
	tick := time.NewTicker(looks)
	defer tick.Stop()
	for {
		err := r.look()
		if err == nil && r.s.PowerState == want {
			return r.on(), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return r.on(), unmoved(r.a)
		}
	}
}

// status is the HTTP status that an error is about; 0: none.
func status(err error) int {
	var e *schemas.Error
	if errors.As(err, &e) {
		return e.HTTPReturnedStatusCode
	}
	return 0
}

// refused turns what gofish returns into an error for people. What a controller says may have what it was asked, and that the password: only
// its own message is shown, without it.
func (a Access) refused(err error, what string) error {
	var own *fail.Error
	var e *schemas.Error
	var cert *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &cert) && len(cert.UnverifiedCertificates) > 0:
		return untrusted(a, cert.UnverifiedCertificates[0], cert.Err)
	case errors.As(err, &e):
		text := e.Message
		for _, i := range e.ExtendedInfos {
			text += " " + i.Message
		}
		why := errors.New(strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.HTTPReturnedStatusCode, strings.ReplaceAll(text, string(a.Password), "…"))))
		switch e.HTTPReturnedStatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fail.Wrap(fail.Unauthorized, why, "%s: user or password are not accepted, or may not do that", what).At(a.Address).Do("naupegos machine bmc MACHINE sets them")
		case http.StatusServiceUnavailable:
			return fail.Wrap(fail.NotReady, why, "%s: the BMC is busy", what).At(a.Address).Do("try again later")
		}
		return fail.Wrap(fail.Refused, why, "%s", what).At(a.Address)
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fail.Wrap(fail.Unreachable, errors.New("no answer in time"), "%s", what).At(a.Address).Do("see that Redfish is on there, and its TCP port open")
	}
	return fail.Wrap(fail.Unreachable, err, "%s", what).At(a.Address)
}
