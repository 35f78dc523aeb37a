package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// hooksFile stores the hooks, because a reset gets no configuration.
const hooksFile = "/etc/naupegos/hooks.json"

// Paths and names of a running hook. Its own unit gives it a control group, so that its time limit also ends its children, and a share of the journal
// that another hook's output can't use up.
const (
	hookUnits  = "naupegos-hook-" // MOMENT-NAME.service
	hookScript = "/run/naupegos/hook"
	hookLines  = 500 // kept of one hook's output in the system's journal; a line has at most 48 KiB
)

// The stages of a machine's life that have hooks before and after them.
const (
	stageInstall = "Install"
	stageUpgrade = "Upgrade"
)

// hooksContent renders hooks for hooksFile.
func hooksContent(hooks []machine.Hook) []byte {
	data, err := json.MarshalIndent(hooks, "", "  ")
	if err != nil {
		panic("hooks: " + err.Error()) // strings and numbers always marshal
	}
	return append(data, '\n')
}

// stageOf returns the stage to which an apply of c belongs, or "" if it belongs to none. An interrupted stage is resumed.
func stageOf(c machine.Config, st *state) string {
	switch {
	case st.Stage != "":
		return st.Stage
	case st.Digest == "" && len(st.Paths)+len(st.Units) == 0:
		return stageInstall
	case c.Release != "" && st.Release != "" && c.Release != st.Release:
		return stageUpgrade
	}
	return ""
}

// hooksAt returns the hooks of one moment.
func hooksAt(hooks []machine.Hook, moment string) []machine.Hook {
	return slices.DeleteFunc(slices.Clone(hooks), func(h machine.Hook) bool { return h.When != moment })
}

// hookChanges lists the hooks of a stage as changes for reports.
func hookChanges(hooks []machine.Hook, stage string) []machine.Change {
	var out []machine.Change
	for _, h := range append(hooksAt(hooks, "before"+stage), hooksAt(hooks, "after"+stage)...) {
		out = append(out, machine.Change{Kind: "hook", Name: h.When + " " + h.Name, Action: "run"})
	}
	return out
}

// savedHooks reads the hooks that the last apply stored.
func (r *reset) savedHooks() ([]machine.Hook, error) {
	data, err := os.ReadFile(r.path(hooksFile))
	if os.IsNotExist(err) {
		return nil, nil
	}
	var hooks []machine.Hook
	if err == nil {
		err = json.Unmarshal(data, &hooks)
	}
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the machine's hooks").At(hooksFile).Do("remove the file to reset without hooks")
	}
	return hooks, nil
}

// hooks runs the hooks of one machine.
type hooks struct {
	*Agent
	machine string
}

// hookUnit names the unit of a hook.
func hookUnit(k machine.Hook) string { return hookUnits + k.When + "-" + k.Name + ".service" }

// run runs the hooks of one moment in order and stops at the first failure.
func (h hooks) run(ctx context.Context, all []machine.Hook, moment string) error {
	for _, k := range hooksAt(all, moment) {
		if err := h.one(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// one runs a hook as a unit. The system's journal takes its output and drops what exceeds the limit, however much the hook prints.
func (h hooks) one(ctx context.Context, k machine.Hook) error {
	if err := os.MkdirAll(h.path(path.Dir(hookScript)), 0o700); err != nil {
		return fileError(err, "write the hook", hookScript)
	}
	unit := hookUnit(k)
	unitFile := "/run/systemd/system/" + unit
	if err := os.MkdirAll(h.path(path.Dir(unitFile)), 0o755); err != nil {
		return fileError(err, "write the hook", unitFile)
	}
	if err := h.writeFile(hookScript, []byte(k.Script), 0o600); err != nil {
		return err
	}
	identifier := hookUnits + rand.Text()[:8]
	if err := h.writeFile(unitFile, []byte(h.unit(k, identifier)), 0o600); err != nil {
		return err
	}
	defer func() {
		_ = os.Remove(h.path(unitFile)) // the next hook overwrites both; /run is empty after a boot
		_ = os.Remove(h.path(hookScript))
	}()
	if _, err := h.systemctl(ctx, "daemon-reload"); err != nil {
		return unitFailure(ctx, err, "have systemd read the hook's unit")
	}
	limit := time.Duration(k.Seconds) * time.Second
	bounded, cancel := context.WithTimeout(ctx, limit+time.Minute) // systemd ends the hook at its limit; the extra minute is for processes that do not die at once
	defer cancel()
	_, err := h.Agent.run.Run(bounded, nil, "systemctl", "start", "--", unit)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		_, _ = h.systemctl(context.WithoutCancel(ctx), "stop", "--", unit) // the hook must not go on running by itself
		return interrupted(ctx.Err())
	}
	return h.failure(ctx, k, identifier, limit)
}

// unit renders the unit that runs a hook. Its output has an identifier of this run alone: systemd forgets the invocation of a unit that has failed, and the
// journal may read the output of a short hook only after that.
func (h hooks) unit(k machine.Hook, identifier string) string {
	return fmt.Sprintf(`[Unit]
Description=Naupegos hook %s %s

[Service]
Type=oneshot
ExecStart=/bin/sh %s
TimeoutStartSec=%d
TimeoutStopSec=10
Environment=NAUPEGOS_HOOK=%s NAUPEGOS_MACHINE=%s
StandardOutput=journal
StandardError=journal
SyslogIdentifier=%s
LogRateLimitIntervalSec=24h
LogRateLimitBurst=%d
`, k.When, k.Name, hookScript, k.Seconds, k.When, h.machine, identifier, hookLines)
}

// failure returns an error that says how a hook failed and ends with the last lines that the hook printed.
func (h hooks) failure(ctx context.Context, k machine.Hook, identifier string, limit time.Duration) error {
	how, v := "it failed", map[string]string{}
	if out, err := h.systemctl(ctx, "show", "--property=Result,ExecMainStatus", "--", hookUnit(k)); err == nil {
		for line := range strings.Lines(string(out)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			v[key] = value
		}
		switch {
		case v["Result"] == "timeout":
			how = fmt.Sprintf("it ran longer than %s and was ended", limit)
		case v["Result"] == "exit-code":
			how = "exit status " + v["ExecMainStatus"]
		case v["Result"] != "":
			how = v["Result"]
		}
	}
	_, _ = h.systemctl(ctx, "reset-failed", "--", hookUnit(k))
	e := fail.New(fail.Refused, "hook %s %s: %s", k.When, k.Name, how).At(h.machine)
	log, err := journal(ctx, h.Agent.run, "--identifier="+identifier)
	switch {
	case err != nil:
		return e.Do("correct the hook or the machine, then run again; journalctl --unit=%s on the machine shows its output", hookUnit(k))
	case len(strings.TrimSpace(string(log))) == 0:
		return e.Do("it printed nothing; correct the hook or the machine, then run again")
	}
	return e.Do("correct the hook or the machine, then run again; its last lines:\n%s", tail(string(log), 2000))
}
